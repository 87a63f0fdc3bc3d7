//! `when = "<CEL>"`: an expression over the event, checked when the configuration is read and bounded when it runs.
//!
//! The crate that evaluates has neither a type checker nor a limit, so both are here: [`check`] finds wrong names and
//! types before the first event, and the steps that an evaluation can take are known from the expression and the size
//! of the event, so that no clock is needed. Patterns of `matches` must be written out; they are compiled once.

mod check;
#[cfg(test)]
mod tests;
mod value;

use std::{
    fmt,
    sync::{Arc, LazyLock},
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
use regex::{Regex, RegexBuilder};

pub(crate) use value::{Needs, event as event_value};

/// Longer ones belong into several routes.
const MAX_LEN: usize = 2_000;
/// What one expression may cost for one event, in nodes of the expression that are evaluated.
const MAX_STEPS: u64 = 200_000;
/// Deeper ones would need a larger stack than threads have.
const MAX_DEPTH: usize = 48;
/// Enough for [`MAX_LEN`] opening brackets.
const PARSER_STACK: usize = 64 << 20;
/// A compiled pattern; `a{1000}{1000}` would take gigabytes.
const MAX_REGEX_BYTES: usize = 256 * 1024;

static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WhenError(String);

/// Why an expression gave no answer for an event. The route does not match then, and the failure is counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the expression could take {steps} steps on this event, more than {MAX_STEPS}")]
    Costly { steps: u64 },
    #[error("{0}")]
    Wrong(String),
}

/// An expression that was checked, with its patterns compiled.
pub(crate) struct When {
    text: String,
    expression: Expression,
    functions: Context<'static, 'static>,
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
        let mut functions = Context::with_env(STANDARD.clone());
        for (index, regex) in patterns.into_iter().enumerate() {
            let is_match = move |text: Arc<String>| regex.is_match(&text);
            functions.add_function(&hoisted(index), is_match).map_err(|error| wrong(error.to_string()))?;
        }
        let when = Self { text: text.to_owned(), expression, functions, cost: seen.cost, needs: seen.needs };
        when.try_out()?;
        Ok(when)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    /// Whether it is true of an event, which is `width` wide in its widest list. A key that the event does not have
    /// (a label, most often) makes it false.
    pub(crate) fn holds(&self, event: &(dyn Val + '_), width: usize) -> Result<bool, Failure> {
        let width = width as u64;
        let per_item = |index: u32| self.cost[index as usize].saturating_mul(width.saturating_pow(index));
        let steps = (0..3).map(per_item).fold(0, u64::saturating_add);
        if steps > MAX_STEPS {
            return Err(Failure::Costly { steps });
        }
        match self.evaluate(event) {
            Ok(Value::Bool(answer)) => Ok(answer),
            Ok(other) => {
                Err(Failure::Wrong(format!("the expression gave {} instead of true or false", other.type_of())))
            }
            Err(ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_)) => Ok(false),
            Err(error) => Err(Failure::Wrong(explain(&error))),
        }
    }

    fn evaluate(&self, event: &(dyn Val + '_)) -> Result<Value, ExecutionError> {
        let variables = Variables(event);
        let mut scope: Context<'_, '_> = self.functions.new_inner_scope();
        scope.set_variable_resolver(&variables);
        scope.resolve(&self.expression)
    }

    /// What the checker cannot know shows on samples: an answer that is not a truth value, a function that does not
    /// take such values.
    fn try_out(&self) -> Result<(), WhenError> {
        for sample in value::samples() {
            let (sample, _) = event_value(sample, self.needs);
            match self.evaluate(sample.as_ref()) {
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
fn hoisted(index: usize) -> String {
    format!("@pattern{index}")
}

/// Replaces each `x.matches('…')` by a call of a function that has the pattern compiled.
fn hoist(expression: &mut Expression, patterns: &mut Vec<Regex>) -> Result<(), WhenError> {
    check::children_mut(expression, &mut |child| hoist(child, patterns))?;
    let Expr::Call(CallExpr { func_name, target, args }) = &mut expression.expr else { return Ok(()) };
    if func_name != "matches" {
        return Ok(());
    }
    let Some(Expr::Literal(LiteralValue::String(pattern))) = args.last().map(|arg| &arg.expr) else {
        return Err(WhenError("matches needs its pattern written out, as in matches('^v[0-9]+$')".into()));
    };
    let regex =
        RegexBuilder::new(pattern.inner()).size_limit(MAX_REGEX_BYTES).build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => WhenError(format!("the pattern `{}` is too large", pattern.inner())),
            error => {
                WhenError(format!("the pattern `{}` is wrong: {}", pattern.inner(), last_line(&error.to_string())))
            }
        })?;
    patterns.push(regex);
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
