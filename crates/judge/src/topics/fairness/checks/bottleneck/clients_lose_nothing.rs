//! Did the clients themselves lose no request?

use record::verdict::fairness::Quantity;
use record::verdict::warning::Warning;

use crate::topics::fairness::subject::beyond;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "clients-lose-nothing",
    group: Group::Bottleneck,
    question: "Did the clients themselves lose no request?",
    reads: "faults that are the clients' own: no port, no descriptor, no memory, late",
    passes: "none",
    why: "Mindcraft 1999: clients on 100 Mbit/s lines were part of the limit.",
    mend: "raise the clients' limits (`ulimit -n`, `net.ipv4.ip_local_port_range`), or ask for less",
    judge: Judge::Run(|subject| {
        subject.unless_warned(|warning| match warning {
            Warning::LostByClients(requests) => Some(beyond(
                (&requests.workload, &requests.arm),
                Quantity::LostByClients,
                requests.count as f64,
                0.0,
            )),
            _ => None,
        })
    }),
    foreseen: Foreseen::Nothing,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn clients_that_lose_requests_are_found() {
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::Pass);
        let warning = Warning::LostByClients(record::verdict::warning::RequestCount {
            workload: "web".into(),
            arm: "7.2".into(),
            count: 3,
        });
        assert!(is_violation(&warned(warning, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &empty().run())));
    }
}
