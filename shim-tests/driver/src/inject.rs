//! Calls told to fail: `SIMCUDA_FAIL=call:n[+]:code,…`. A name covers every version and twin of the call, counted together.

use crate::config;
use crate::cuda::{Answer, CuError};
use crate::gate::Call;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
struct Rule {
    name: String,
    from: u64,
    onwards: bool,
    code: u32,
    seen: AtomicU64,
}

pub(crate) fn check(call: &Call) -> Answer {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    let rules = RULES.get_or_init(|| parse(config::config().fail.as_deref().unwrap_or_default()));
    apply(rules, call)
}

fn apply(rules: &[Rule], call: &Call) -> Answer {
    let mut answer = Ok(());
    for rule in rules
        .iter()
        .filter(|rule| rule.name == call.base || rule.name == call.name)
    {
        let turn = 1 + rule.seen.fetch_add(1, Ordering::Relaxed);
        if (turn == rule.from || (rule.onwards && turn > rule.from))
            && rule.code != 0
            && answer.is_ok()
        {
            answer = Err(CuError(rule.code));
        }
    }
    answer
}

fn parse(text: &str) -> Vec<Rule> {
    text.split(',').filter_map(parse_rule).collect()
}

fn parse_rule(text: &str) -> Option<Rule> {
    let mut parts = text.trim().split(':');
    let name = parts.next()?.to_owned();
    let turn = parts.next()?;
    let code = parts.next()?.parse().ok()?;
    let onwards = turn.ends_with('+');
    Some(Rule {
        name,
        from: turn.trim_end_matches('+').parse().ok()?,
        onwards,
        code,
        seen: AtomicU64::new(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Lane;

    #[test]
    fn a_rule_counts_all_versions_of_its_call_together() {
        static OLD: Call = Call::new("cuX", "cuX", 1, Lane::Legacy, true);
        static NEW: Call = Call::new("cuX_v2_ptsz", "cuX", 2, Lane::PerThread, true);
        let rules = parse("cuX:2:7, cuX:4+:9");
        let answers: Vec<Answer> = [&OLD, &NEW, &OLD, &NEW, &NEW]
            .map(|call| apply(&rules, call))
            .to_vec();
        assert_eq!(
            answers,
            [
                Ok(()),
                Err(CuError(7)),
                Ok(()),
                Err(CuError(9)),
                Err(CuError(9))
            ]
        );
    }
}
