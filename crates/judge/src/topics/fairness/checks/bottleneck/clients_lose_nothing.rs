//! Did the clients themselves lose no request?

use record::verdict::fairness::Quantity;

use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "clients-lose-nothing",
    group: Group::Bottleneck,
    question: "Did the clients themselves lose no request?",
    reads: "faults that are the clients' own: no port, no descriptor, no memory, late",
    passes: "none",
    why: "Mindcraft 1999: clients on 100 Mbit/s lines were part of the limit.",
    mend: "raise the clients' limits (`ulimit -n`, `net.ipv4.ip_local_port_range`), or ask for less",
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
