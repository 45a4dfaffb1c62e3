//! The clients lose no request themselves.

use record::verdict::fairness::Quantity;

use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "clients-lose-nothing",
    group: Group::Bottleneck,
    must_hold: "The clients lose no request themselves.",
    why: "Mindcraft 1999: clients with 100 Mbit/s links were part of the limit.",
    mend: "Raise the clients' limits (`ulimit -n`, `net.ipv4.ip_local_port_range`), or reduce the load.",
    reads: "faults of the clients: no port, no descriptor, no memory, late",
    judge: Judge::Run(|subject| subject.unless_beyond(Quantity::LostByClients)),
    foreseen: Foreseen::Nothing,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::quantity_is_watched;

    #[test]
    fn clients_that_lose_requests_are_found() {
        quantity_is_watched(&CHECK, Quantity::LostByClients);
    }
}
