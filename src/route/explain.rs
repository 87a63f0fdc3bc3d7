//! Why an event goes where it goes: every route that was asked, and the matcher that said no.

use std::fmt;

use serde::Serialize;

use super::{Context, Decision, Node, SINKS, Table, Test, Witness, matcher::Facts, when::Failure};
use crate::event::Event;

/// A decision and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub decision: Decision,
    /// The routes in the order in which they were asked. Those after the last one were not.
    pub steps: Vec<Step>,
    /// The sinks came from an annotation, so no route was asked.
    pub annotated: bool,
}

/// One route that was asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// How many routes it lies within.
    pub depth: usize,
    pub route: String,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Took,
    Dropped {
        reason: String,
    },
    /// This matcher said no.
    Refused {
        test: Test,
        detail: String,
    },
    /// Its expression gave no answer.
    Failed {
        detail: String,
    },
}

impl Table {
    /// As [`Table::route`], with the reasons. It asks the same matchers in the same order.
    pub fn explain(&self, event: &Event, context: &Context<'_>) -> Explanation {
        let mut steps = Steps(Vec::new());
        let decision = self.decide(event, context, &mut steps);
        let named = [context.annotations, context.namespace_annotations].iter().any(|all| all.contains_key(SINKS));
        let annotated = self.annotations && named && steps.0.is_empty() && !decision.sinks.is_empty();
        Explanation { decision, steps: steps.0, annotated }
    }
}

struct Steps(Vec<Step>);

impl Witness for Steps {
    fn asked(&mut self, depth: usize, node: &Node, refusal: Option<&(Test, Option<Failure>)>, facts: &Facts<'_>) {
        let verdict = match (refusal, &node.drop) {
            (Some((_, Some(failure))), _) => Verdict::Failed { detail: failure.to_string() },
            (Some((test, None)), _) => Verdict::Refused { test: *test, detail: node.matcher.detail(*test, facts) },
            (None, Some(reason)) => Verdict::Dropped { reason: reason.to_string() },
            (None, None) => Verdict::Took,
        };
        self.0.push(Step { depth, route: node.name.to_string(), verdict });
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mark, rest) = match &self.verdict {
            Verdict::Took => ("yes", String::new()),
            Verdict::Dropped { reason } => ("drop", format!(": {reason}")),
            Verdict::Refused { test, detail } => ("no", format!(": {} {detail}", test.key())),
            Verdict::Failed { detail } => ("failed", format!(": when: {detail}")),
        };
        write!(f, "{:indent$}{mark:<6} {}{rest}", "", self.route, indent = self.depth * 2)
    }
}
