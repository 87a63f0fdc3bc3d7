//! `when = "<CEL>"`: an expression over the event, checked when the configuration is read and bounded when it runs.
//!
//! The crate that evaluates has neither a type checker nor a limit, so both are here: [`check`] finds wrong names and
//! types before the first event, and the steps that an evaluation can take are known from the expression and the size
//! of the event: one that could take too many is not begun. What a step costs depends on how long texts are, so an event
//! with much text is evaluated against the clock ([`clock`]), which no function gets round: it is asked before every one of
//! them ([`timed`]), and within those that can take long. Patterns of `matches` must be written out; they are compiled once
//! ([`pattern`]). What people write most is asked without that crate ([`direct`]), which is several times faster.

mod check;
mod clock;
mod direct;
mod pattern;
#[cfg(test)]
mod tests;
mod timed;
mod value;

use std::{
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

use cel::{
    Context, Env, ExecutionError, Value,
    common::{
        ast::{CallExpr, Expr, LiteralValue},
        value::{CowVal, Val},
    },
    context::VariableResolver,
    parser::Expression,
};
pub(crate) use value::{Needs, Size, event as event_value};

use self::{
    clock::{Late, TIME},
    pattern::Pattern,
};
use crate::event::Event;

/// Longer ones belong into several routes.
const MAX_LEN: usize = 2_000;
/// What one expression may cost for one event, in nodes of the expression that are evaluated.
const MAX_STEPS: u64 = 200_000;
/// Deeper ones would need a larger stack than threads have.
const MAX_DEPTH: usize = 48;
/// Enough for [`MAX_LEN`] opening brackets.
const PARSER_STACK: usize = 64 << 20;
/// Bytes of text times steps: what is less takes no time that anybody would notice, whatever is done with the text.
const LIGHT: u64 = 1 << 20;

static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WhenError(String);

/// Why an expression gave no answer for an event. The route does not match then, and the failure is counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the expression could take {steps} steps on this event, more than {MAX_STEPS}")]
    Costly { steps: u64 },
    #[error("the expression took longer than {millis} ms on this event")]
    Late { millis: u64 },
    #[error("the expression made more than {} MiB of text of this event", clock::MADE >> 20)]
    Large,
    #[error("{0}")]
    Wrong(String),
}

/// An expression that was checked, with its patterns compiled.
pub(crate) struct When {
    text: String,
    expression: Expression,
    /// The same, with the clock asked before every function.
    timed: Expression,
    /// It can make more than it finds in the event, or has patterns, of which a few letters can take long.
    heavy: bool,
    functions: Context<'static, 'static>,
    direct: Option<direct::Test>,
    /// Steps by depth of loops: the first once, the second for each item, the third for each pair of items.
    cost: [u64; 3],
    needs: Needs,
}

impl When {
    pub(crate) fn new(text: &str) -> Result<Self, WhenError> {
        let wrong = |message: String| WhenError(message);
        if text.trim().is_empty() {
            return Err(wrong("an empty expression; leave the key out instead".into()));
        }
        if text.len() > MAX_LEN {
            return Err(wrong(format!("an expression of {} characters, more than {MAX_LEN}", text.len())));
        }
        let mut expression = parse(text)?;
        let seen = check::check(&expression).map_err(wrong)?;
        let mut patterns = Vec::new();
        hoist(&mut expression, &mut patterns)?;
        let direct = direct::lower(&expression, &patterns);
        let heavy = !patterns.is_empty() || timed::grows(&expression);
        let mut functions = Context::with_env(STANDARD.clone());
        for (index, pattern) in patterns.into_iter().enumerate() {
            let is_match = move |text: Arc<String>| {
                clock::running(|clock| pattern.is_match(&text, clock)).map_err(|Late| timed::late())
            };
            functions.add_function(&hoisted(index), is_match).map_err(|error| wrong(error.to_string()))?;
        }
        timed::add_functions(&mut functions).map_err(|error| wrong(error.to_string()))?;
        let timed = timed::timed(&expression);
        let (cost, needs, text) = (seen.cost, seen.needs, text.to_owned());
        let when = Self { text, expression, timed, heavy, functions, direct, cost, needs };
        when.try_out()?;
        Ok(when)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    /// Whether it is true of an event; `value` makes of it what the general evaluation needs, with its size. A key that the event does not have (a label, most often) makes it false.
    pub(crate) fn holds<'v>(
        &self,
        event: &Event,
        value: impl FnOnce() -> (&'v (dyn Val + 'v), Size),
    ) -> Result<bool, Failure> {
        if let Some(test) = &self.direct {
            self.affordable(direct::width(event))?;
            return direct::holds(test, event, TIME);
        }
        let (value, size) = value();
        self.holds_generally(value, size, TIME)
    }

    /// What it can cost on lists of this width must be within the bounds.
    fn affordable(&self, width: usize) -> Result<u64, Failure> {
        let width = width as u64;
        let per_item = |index: u32| self.cost[index as usize].saturating_mul(width.saturating_pow(index));
        let steps = (0..3).map(per_item).fold(0, u64::saturating_add);
        if steps > MAX_STEPS { Err(Failure::Costly { steps }) } else { Ok(steps) }
    }

    fn holds_generally(&self, event: &(dyn Val + '_), size: Size, limit: Duration) -> Result<bool, Failure> {
        let steps = self.affordable(size.width)?;
        let light = !self.heavy && steps.saturating_mul(size.text as u64) < LIGHT;
        let answer = match light {
            true => self.evaluate(&self.expression, event),
            false => clock::run(limit, || self.evaluate(&self.timed, event))?,
        };
        match answer {
            Ok(Value::Bool(answer)) => Ok(answer),
            Ok(other) => {
                Err(Failure::Wrong(format!("the expression gave {} instead of true or false", other.type_of())))
            }
            Err(ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_)) => Ok(false),
            Err(error) => Err(Failure::Wrong(explain(&error))),
        }
    }

    fn evaluate(&self, expression: &Expression, event: &(dyn Val + '_)) -> Result<Value, ExecutionError> {
        let variables = Variables(event);
        let mut scope: Context<'_, '_> = self.functions.new_inner_scope();
        scope.set_variable_resolver(&variables);
        scope.resolve(expression)
    }

    /// What the checker cannot know shows on samples: an answer that is not a truth value, a function that does not
    /// take such values.
    fn try_out(&self) -> Result<(), WhenError> {
        for sample in value::samples() {
            let (sample, _) = event_value(sample, self.needs);
            let answer = clock::run(TIME, || self.evaluate(&self.timed, sample.as_ref()));
            match answer.map_err(|failure| WhenError(failure.to_string().replace("this event", "a sample")))? {
                Ok(Value::Bool(_)) | Err(ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_)) => {}
                Ok(other) => {
                    return Err(WhenError(format!("expected true or false, the expression gives {}", other.type_of())));
                }
                // What a changed value is differs from field to field: of that, a sample proves nothing.
                Err(_) if self.needs != Needs::default() => {}
                Err(error) => return Err(WhenError(explain(&error))),
            }
        }
        Ok(())
    }
}

impl fmt::Debug for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "When({:?})", self.text)
    }
}

struct Variables<'e>(&'e (dyn Val + 'e));

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        (name == "event").then_some(CowVal::Borrowed(self.0))
    }
}

/// On a stack of its own: what parses an expression goes as deep as the expression, and that is known only afterwards.
fn parse(text: &str) -> Result<Expression, WhenError> {
    let too_deep = || format!("the expression is nested more than {MAX_DEPTH} deep");
    let parse = || {
        let program = STANDARD.compile(text).map_err(|errors| {
            let first = errors.errors.first();
            let message = first.map(|error| match error.msg.contains("Recursion limit") {
                true => too_deep(),
                false => format!("column {}: {}", error.pos.1, first_line(&error.msg)),
            });
            WhenError(message.unwrap_or_else(|| errors.to_string()))
        })?;
        match check::depth(program.expression()) {
            depth if depth > MAX_DEPTH => Err(WhenError(too_deep())),
            _ => Ok(program.expression().clone()),
        }
    };
    let failed = || WhenError("the expression could not be parsed".into());
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(PARSER_STACK).spawn_scoped(scope, parse);
        thread.map_err(|_| failed())?.join().unwrap_or_else(|_| Err(failed()))
    })
}

/// A name that nobody can type.
const HOISTED: &str = "@pattern";

fn hoisted(index: usize) -> String {
    format!("{HOISTED}{index}")
}

/// Replaces each `x.matches('…')` by a call of a function that has the pattern compiled.
fn hoist(expression: &mut Expression, patterns: &mut Vec<Pattern>) -> Result<(), WhenError> {
    check::children_mut(expression, &mut |child| hoist(child, patterns))?;
    let Expr::Call(CallExpr { func_name, target, args }) = &mut expression.expr else { return Ok(()) };
    if func_name != "matches" {
        return Ok(());
    }
    let Some(Expr::Literal(LiteralValue::String(pattern))) = args.last().map(|arg| &arg.expr) else {
        return Err(WhenError("matches needs its pattern written out, as in matches('^v[0-9]+$')".into()));
    };
    patterns.push(Pattern::new(pattern.inner())?);
    args.pop();
    args.extend(target.take().map(|target| *target));
    *func_name = hoisted(patterns.len() - 1);
    Ok(())
}

fn explain(error: &ExecutionError) -> String {
    match error {
        ExecutionError::UndeclaredReference(name) => format!("there is no function or name `{name}`"),
        other => first_line(&other.to_string()).to_owned(),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default().trim_start_matches("error: ")
}
