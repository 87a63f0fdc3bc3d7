//! An expression that was checked becomes a [`Test`], or is left alone.

use cel::{
    common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue, SelectExpr, operators},
    parser::Expression,
};
use serde_json::Value as Json;

use super::{
    super::{HOISTED, pattern::Pattern, value::op},
    List, Literal, Number, Test, Text,
};
use crate::{
    diff::Change,
    event::{Actor, Event},
    route::matcher::observed,
};

/// The expression as a [`Test`], when all of it is of that sort. `patterns` are those that were taken out of it.
pub(in crate::route::when) fn lower(expression: &Expression, patterns: &[Pattern]) -> Option<Test> {
    Lowering { variables: Vec::new(), patterns }.test(expression)
}

/// `from` or `to`.
type Side = fn(&Change) -> &Option<Json>;

struct Lowering<'p> {
    /// The names of loops' items and what they go through, from the outermost.
    variables: Vec<(String, List)>,
    patterns: &'p [Pattern],
}

impl Lowering<'_> {
    fn test(&mut self, expression: &Expression) -> Option<Test> {
        match &expression.expr {
            Expr::Literal(LiteralValue::Boolean(answer)) => Some(Test::Constant(*answer.inner())),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            // has(event.resource.labels.app)
            Expr::Select(SelectExpr { operand, field, test: true }) => match self.list(operand)? {
                List::Labels => Some(Test::In(Text::Literal(field.as_str().into()), List::Labels)),
                _ => None,
            },
            _ => None,
        }
    }

    fn call(&mut self, call: &CallExpr) -> Option<Test> {
        let name = call.func_name.as_str();
        if let Some(index) = name.strip_prefix(HOISTED) {
            let [text] = call.args.as_slice() else { return None };
            let pattern = self.patterns.get(index.parse::<usize>().ok()?)?;
            return Some(Test::Matches(self.text(text)?, pattern.clone()));
        }
        if let (Some(target), [arg]) = (&call.target, call.args.as_slice()) {
            let make = match name {
                "startsWith" => Test::StartsWith,
                "endsWith" => Test::EndsWith,
                "contains" => Test::Contains,
                _ => return None,
            };
            return Some(make(self.text(target)?, self.text(arg)?));
        }
        let [a, b] = call.args.as_slice() else {
            let ([a], operators::LOGICAL_NOT) = (call.args.as_slice(), name) else { return None };
            return Some(Test::Not(Box::new(self.test(a)?)));
        };
        let compare: fn(i64, i64) -> bool = match name {
            operators::LOGICAL_AND => return Some(Test::And(Box::new(self.test(a)?), Box::new(self.test(b)?))),
            operators::LOGICAL_OR => return Some(Test::Or(Box::new(self.test(a)?), Box::new(self.test(b)?))),
            operators::IN => return self.is_in(a, b),
            operators::EQUALS | operators::NOT_EQUALS if self.number(a).is_none() || self.value(b).is_some() => {
                let same = match self.value(a).zip(literal(b)).or_else(|| self.value(b).zip(literal(a))) {
                    Some(((at, field), literal)) => Test::Value(at, field, literal),
                    None => Test::Same(self.text(a)?, self.text(b)?),
                };
                return Some(if name == operators::EQUALS { same } else { Test::Not(Box::new(same)) });
            }
            operators::EQUALS => |a, b| a == b,
            operators::NOT_EQUALS => |a, b| a != b,
            operators::LESS => |a, b| a < b,
            operators::LESS_EQUALS => |a, b| a <= b,
            operators::GREATER => |a, b| a > b,
            operators::GREATER_EQUALS => |a, b| a >= b,
            _ => return None,
        };
        Some(Test::Compare(self.number(a)?, compare, self.number(b)?))
    }

    fn is_in(&self, text: &Expression, list: &Expression) -> Option<Test> {
        let text = self.text(text)?;
        if let Expr::List(list) = &list.expr {
            let plain = list.optional_indices.is_empty();
            let all = plain.then(|| list.elements.iter().map(|item| self.text(item)).collect::<Option<_>>())??;
            return Some(Test::OneOf(text, all));
        }
        match self.list(list)? {
            list @ (List::Classes | List::Labels) => Some(Test::In(text, list)),
            List::Changes | List::Actors => None,
        }
    }

    /// `exists` and `all`, by what the parser makes of them.
    fn comprehension(&mut self, it: &ComprehensionExpr) -> Option<Test> {
        let accumulated = |e: &Expression| matches!(&e.expr, Expr::Ident(name) if *name == it.accu_var);
        let (Expr::Call(step), None) = (&it.loop_step.expr, &it.iter_var2) else { return None };
        let ([so_far, each], true) = (step.args.as_slice(), accumulated(&it.result)) else { return None };
        let begins = match &it.accu_init.expr {
            Expr::Literal(LiteralValue::Boolean(begins)) => *begins.inner(),
            _ => return None,
        };
        let goes_on = matches!(&it.loop_cond.expr, Expr::Call(call) if call.func_name == operators::NOT_STRICTLY_FALSE);
        if !accumulated(so_far) || !goes_on {
            return None;
        }
        let list = self.list(&it.iter_range)?;
        self.variables.push((it.iter_var.clone(), list));
        let test = self.test(each);
        self.variables.pop();
        let test = Box::new(test?);
        match (step.func_name.as_str(), begins) {
            (operators::LOGICAL_OR, false) => Some(Test::Exists(list, test)),
            (operators::LOGICAL_AND, true) => Some(Test::All(list, test)),
            _ => None,
        }
    }

    fn list(&self, expression: &Expression) -> Option<List> {
        match self.path(expression)?.as_slice() {
            ["changes"] => Some(List::Changes),
            ["actors"] => Some(List::Actors),
            ["classes"] => Some(List::Classes),
            ["resource", "labels"] => Some(List::Labels),
            _ => None,
        }
    }

    fn number(&self, expression: &Expression) -> Option<Number> {
        match &expression.expr {
            Expr::Literal(LiteralValue::Int(number)) => Some(Number::Literal(*number.inner())),
            Expr::Call(call) if call.func_name == "size" => match (&call.target, call.args.as_slice()) {
                (Some(list), []) => self.list(list).map(Number::Size),
                (None, [list]) => self.list(list).map(Number::Size),
                _ => None,
            },
            _ => (self.path(expression)?.as_slice() == ["resource", "generation"]).then_some(Number::Generation),
        }
    }

    /// `c.from` or `c.to` of a change.
    fn value(&self, expression: &Expression) -> Option<(usize, Side)> {
        let Expr::Select(SelectExpr { operand, field, test: false }) = &expression.expr else { return None };
        let Expr::Ident(name) = &operand.expr else { return None };
        match (self.variable(name)?, field.as_str()) {
            ((at, List::Changes), "from") => Some((at, |change| &change.from)),
            ((at, List::Changes), "to") => Some((at, |change| &change.to)),
            _ => None,
        }
    }

    fn text(&self, expression: &Expression) -> Option<Text> {
        match &expression.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(Text::Literal(text.inner().into())),
            Expr::Ident(name) => match self.variable(name)? {
                (at, List::Classes | List::Labels) => Some(Text::Word(at)),
                _ => None,
            },
            Expr::Call(call) if call.func_name == operators::INDEX => match call.args.as_slice() {
                [of, key] if matches!(self.list(of), Some(List::Labels)) => {
                    Some(Text::Label(Box::new(self.text(key)?)))
                }
                _ => None,
            },
            Expr::Select(SelectExpr { operand, field, test: false }) => {
                if let Expr::Ident(name) = &operand.expr
                    && let Some((at, list)) = self.variable(name)
                {
                    return match list {
                        List::Changes => of_change(field).map(|field| Text::OfChange(at, field)),
                        List::Actors => of_actor(field).map(|field| Text::OfActor(at, field)),
                        List::Classes | List::Labels => None,
                    };
                }
                match self.path(expression)?.as_slice() {
                    ["resource", "labels", key] => Some(Text::Label(Box::new(Text::Literal((*key).into())))),
                    path => of_event(path).map(Text::Of),
                }
            }
            _ => None,
        }
    }

    /// The innermost of that name.
    fn variable(&self, name: &str) -> Option<(usize, List)> {
        let at = self.variables.iter().rposition(|(known, _)| known == name)?;
        Some((at, self.variables[at].1))
    }

    /// `event.resource.name` as `["resource", "name"]`.
    fn path<'a>(&self, expression: &'a Expression) -> Option<Vec<&'a str>> {
        match &expression.expr {
            Expr::Ident(name) if name == "event" && self.variable(name).is_none() => Some(Vec::new()),
            Expr::Select(SelectExpr { operand, field, test: false }) => {
                let mut path = self.path(operand)?;
                path.push(field);
                Some(path)
            }
            _ => None,
        }
    }
}

fn of_event(path: &[&str]) -> Option<fn(&Event) -> &str> {
    Some(match path {
        ["schema"] => |event| &event.schema,
        ["id"] => |event| &event.id,
        ["observed"] => |event| observed(event.observed),
        ["type"] => |event| event.kind.as_str(),
        ["summary"] => |event| &event.summary,
        ["cluster", "name"] => |event| &event.cluster.name,
        ["cluster", "uid"] => |event| &event.cluster.uid,
        ["resource", "group"] => |event| &event.resource.group,
        ["resource", "version"] => |event| &event.resource.version,
        ["resource", "resource"] => |event| &event.resource.resource,
        ["resource", "kind"] => |event| &event.resource.kind,
        ["resource", "namespace"] => |event| &event.resource.namespace,
        ["resource", "name"] => |event| &event.resource.name,
        ["resource", "uid"] => |event| &event.resource.uid,
        ["owner", "kind"] => |event| event.owner.as_ref().map_or("", |owner| &owner.kind),
        ["owner", "namespace"] => |event| event.owner.as_ref().map_or("", |owner| &owner.namespace),
        ["owner", "name"] => |event| event.owner.as_ref().map_or("", |owner| &owner.name),
        _ => return None,
    })
}

fn of_change(field: &str) -> Option<fn(&Change) -> &str> {
    Some(match field {
        "op" => |change| op(change.op),
        "path" => |change| &change.path,
        "field" => |change| &change.field,
        "lines" => |change| change.lines.as_deref().unwrap_or_default(),
        _ => return None,
    })
}

fn of_actor(field: &str) -> Option<fn(&Actor) -> &str> {
    Some(match field {
        "manager" => |actor| &actor.manager,
        "operation" => |actor| &actor.operation,
        "subresource" => |actor| &actor.subresource,
        _ => return None,
    })
}

fn literal(expression: &Expression) -> Option<Literal> {
    let Expr::Literal(literal) = &expression.expr else { return None };
    match literal {
        LiteralValue::Null => Some(Literal::Null),
        LiteralValue::Boolean(flag) => Some(Literal::Bool(*flag.inner())),
        LiteralValue::Int(number) => Some(Literal::Int(*number.inner())),
        LiteralValue::String(text) => Some(Literal::Text(text.inner().into())),
        LiteralValue::Bytes(_) | LiteralValue::Double(_) | LiteralValue::UInt(_) => None,
    }
}
