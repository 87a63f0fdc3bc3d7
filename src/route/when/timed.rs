//! An expression with the clock asked before every function of it, and with everything that is made under its eyes.
//!
//! A call `f(x)` becomes `@in_time() ? f(x) : null`, where `@in_time` fails when it is over. What decides truths (`&&`, `||`,
//! `!`, `?`) stays as it is: it costs nothing, and the crate knows the loops by it. A failure may be overruled, by `||` for
//! example; that it was over is kept by the clock itself, and the answer does not count.
//!
//! `a + b` becomes `@add(a, b)` and an item of a list `@kept(x)`, which count: `.map(x, x + x)` and `.map(x, [x, x])` double
//! what there is, and there is room for a hundred of them.

use cel::{
    Context, DeclarationError, ExecutionError, Value,
    common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators},
    parser::Expression,
};

use super::{
    check,
    clock::{self, Clock, Late},
};

const IN_TIME: &str = "@in_time";
const ADD: &str = "@add";
const KEPT: &str = "@kept";
/// Besides the text: the value itself.
const VALUE: usize = 64;

/// What a function says when it is over. Nobody reads it: the clock has the reason.
pub(super) fn late() -> ExecutionError {
    ExecutionError::function_error(IN_TIME, "it is over")
}

pub(super) fn add_functions(functions: &mut Context<'static, 'static>) -> Result<(), DeclarationError> {
    functions.add_function(IN_TIME, || {
        clock::running(|clock| clock.map_or(Ok(()), Clock::tick)).map(|()| true).map_err(|Late| late())
    })?;
    functions.add_function(ADD, |a: Value, b: Value| {
        make(size(&a) + size(&b))?;
        a + b
    })?;
    functions.add_function(KEPT, |value: Value| make(size(&value)).map(|()| value))
}

fn make(bytes: usize) -> Result<(), ExecutionError> {
    clock::running(|clock| clock.map_or(Ok(()), |clock| clock.make(bytes))).map_err(|Late| late())
}

/// What a value takes, all that is in it included.
fn size(value: &Value) -> usize {
    VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(items) => items.iter().map(size).sum(),
            Value::Map(map) => map.map.values().map(|value| VALUE + size(value)).sum(),
            _ => 0,
        }
}

/// Whether an evaluation can make more than it finds: then it is done against the clock, however small the event is.
pub(super) fn grows(expression: &Expression) -> bool {
    let literal = |expression: &Expression| matches!(expression.expr, Expr::Literal(_));
    let own = match &expression.expr {
        Expr::Call(call) if call.func_name == operators::ADD => !appends(call),
        Expr::List(list) => list.elements.len() > 1 && !list.elements.iter().all(literal),
        Expr::Map(map) => !map.entries.is_empty(),
        _ => false,
    };
    let mut grows = own;
    check::children(expression, &mut |child| grows |= self::grows(child));
    grows
}

/// `@result + [x]`: how `map` and `filter` gather. Nobody can type that name.
fn appends(call: &CallExpr) -> bool {
    match call.args.as_slice() {
        [gathered, item] => {
            matches!(&gathered.expr, Expr::Ident(name) if name.starts_with('@')) && matches!(item.expr, Expr::List(_))
        }
        _ => false,
    }
}

pub(super) fn timed(expression: &Expression) -> Expression {
    let mut timed = expression.clone();
    rewrite(&mut timed);
    timed
}

/// Counts an item that is kept, unless it is written out.
fn kept(item: &mut Expression) {
    if !matches!(item.expr, Expr::Literal(_)) {
        let args = vec![std::mem::take(item)];
        item.expr = Expr::Call(CallExpr { func_name: KEPT.to_owned(), target: None, args });
    }
}

fn rewrite(expression: &mut Expression) {
    let visited = check::children_mut(expression, &mut |child| {
        rewrite(child);
        Ok::<(), std::convert::Infallible>(())
    });
    debug_assert!(visited.is_ok());
    match &mut expression.expr {
        Expr::List(list) => list.elements.iter_mut().for_each(kept),
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| match &mut entry.expr {
            EntryExpr::StructField(field) => kept(&mut field.value),
            EntryExpr::MapEntry(entry) => kept(&mut entry.value),
        }),
        _ => {}
    }
    let Expr::Call(call) = &mut expression.expr else { return };
    let stays = match call.func_name.as_str() {
        operators::LOGICAL_AND
        | operators::LOGICAL_OR
        | operators::LOGICAL_NOT
        | operators::CONDITIONAL
        | operators::NOT_STRICTLY_FALSE
        | operators::INDEX => true,
        operators::ADD => appends(call),
        _ => false,
    };
    if stays {
        return;
    }
    if call.func_name == operators::ADD {
        ADD.clone_into(&mut call.func_name);
        return;
    }
    let id = expression.id;
    let made = |expr| Expression { id, expr };
    let asked = made(Expr::Call(CallExpr { func_name: IN_TIME.to_owned(), target: None, args: Vec::new() }));
    let call = made(std::mem::take(&mut expression.expr));
    let never = made(Expr::Literal(LiteralValue::Null));
    let func_name = operators::CONDITIONAL.to_owned();
    expression.expr = Expr::Call(CallExpr { func_name, target: None, args: vec![asked, call, never] });
}
