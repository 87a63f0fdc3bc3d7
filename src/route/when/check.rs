//! Names and types in an expression: what the event has, which functions there are, what goes with what. Beside them,
//! from the same walk: what an evaluation can cost, and which parts of the event it looks at.

use cel::{
    common::ast::{ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators},
    parser::Expression,
};

use super::value::Needs;
use crate::route::spell::did_you_mean;

/// Loops in loops: two are enough to compare every change with every other.
const MAX_LOOPS: usize = 2;

pub(super) struct Seen {
    pub(super) cost: [u64; 3],
    pub(super) needs: Needs,
}

/// What is known of a value before there is one.
#[derive(Clone, Debug, PartialEq)]
enum Type {
    Any,
    Bool,
    Number,
    Text,
    List(Box<Type>),
    /// Texts by text.
    Map,
    Fields(&'static Fields),
}

/// A part of the event and the names of its fields.
#[derive(Debug)]
struct Fields {
    name: &'static str,
    texts: &'static [&'static str],
    others: &'static [Other],
}

/// A field that is no text, by its name.
type Other = (&'static str, fn() -> Type);

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

static EVENT: Fields = Fields {
    name: "event",
    texts: &["schema", "id", "time", "observed", "type", "summary"],
    others: &[
        ("cluster", || Type::Fields(&CLUSTER)),
        ("resource", || Type::Fields(&RESOURCE)),
        ("owner", || Type::Fields(&OWNER)),
        ("actors", || Type::List(Box::new(Type::Fields(&ACTOR)))),
        ("classes", || Type::List(Box::new(Type::Text))),
        ("changes", || Type::List(Box::new(Type::Fields(&CHANGE)))),
        ("patch", || Type::List(Box::new(Type::Any))),
        ("object", || Type::Any),
    ],
};
static CLUSTER: Fields = Fields { name: "cluster", texts: &["name", "uid"], others: &[] };
static RESOURCE: Fields = Fields {
    name: "resource",
    texts: &[
        "group",
        "version",
        "resource",
        "kind",
        "namespace",
        "name",
        "uid",
        "resourceVersion",
        "previousResourceVersion",
    ],
    others: &[("generation", || Type::Number), ("labels", || Type::Map)],
};
static OWNER: Fields = Fields { name: "owner", texts: &["kind", "namespace", "name"], others: &[] };
static ACTOR: Fields = Fields { name: "actor", texts: &["manager", "operation", "subresource", "time"], others: &[] };
static CHANGE: Fields = Fields {
    name: "change",
    texts: &["op", "path", "field", "lines"],
    others: &[("from", || Type::Any), ("to", || Type::Any)],
};

impl Fields {
    fn get(&self, field: &str) -> Option<Type> {
        if self.texts.contains(&field) {
            return Some(Type::Text);
        }
        self.others.iter().find(|(name, _)| *name == field).map(|(_, make)| make())
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.texts.iter().copied().chain(self.others.iter().map(|(name, _)| *name))
    }
}

impl Type {
    fn describe(&self) -> String {
        match self {
            Self::Any => "any value".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Map => "a map".to_owned(),
            Self::Fields(fields) => format!("the {}", fields.name),
        }
    }

    fn may_be(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::List(a), Self::List(b)) => a.may_be(b),
            (Self::Map, Self::Fields(_)) | (Self::Fields(_), Self::Map) => true,
            (a, b) => a == b,
        }
    }
}

/// Functions of texts, called as `text.startsWith('…')`.
const TEXT_METHODS: [&str; 4] = ["contains", "startsWith", "endsWith", "matches"];
const FUNCTIONS: [&str; 8] = ["size", "string", "int", "uint", "double", "bool", "type", "dyn"];
const TYPE_NAMES: [&str; 10] = ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];

pub(super) fn check(expression: &Expression) -> Result<Seen, String> {
    let mut checker =
        Checker { scope: vec![("event".to_owned(), Type::Fields(&EVENT))], needs: Needs::default(), loops: 0 };
    let result = checker.infer(expression)?;
    if !result.may_be(&Type::Bool) {
        return Err(format!("expected true or false, the expression gives {}", result.describe()));
    }
    Ok(Seen { cost: cost(expression), needs: checker.needs })
}

struct Checker {
    scope: Vec<(String, Type)>,
    needs: Needs,
    loops: usize,
}

impl Checker {
    fn infer(&mut self, expression: &Expression) -> Result<Type, String> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::String(_) => Type::Text,
                LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => Type::Number,
                LiteralValue::Bytes(_) | LiteralValue::Null => Type::Any,
            }),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => {
                let operand = self.infer(&select.operand)?;
                let found = self.field(&operand, &select.field)?;
                Ok(if select.test { Type::Bool } else { found })
            }
            Expr::Call(call) => {
                let target = call.target.as_ref().map(|target| self.infer(target)).transpose()?;
                let args = call.args.iter().map(|arg| self.infer(arg)).collect::<Result<Vec<_>, _>>()?;
                if call.func_name == operators::INDEX && args.len() == 2 {
                    return self.index(&args[0], call.args.get(1));
                }
                function(&call.func_name, target.as_ref(), &args)
            }
            Expr::List(list) => {
                let items = list.elements.iter().map(|item| self.infer(item)).collect::<Result<Vec<_>, _>>()?;
                let item = items.first().filter(|first| items.iter().all(|item| item == *first));
                Ok(Type::List(Box::new(item.cloned().unwrap_or(Type::Any))))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Map(map) => {
                for entry in &map.entries {
                    self.entry(&entry.expr)?;
                }
                Ok(Type::Any)
            }
            Expr::Struct(made) => Err(format!("there is no type `{}`", made.type_name)),
            Expr::Unspecified => Err("an incomplete expression".to_owned()),
        }
    }

    fn entry(&mut self, entry: &EntryExpr) -> Result<(), String> {
        match entry {
            EntryExpr::StructField(field) => self.infer(&field.value).map(drop),
            EntryExpr::MapEntry(entry) => {
                self.infer(&entry.key)?;
                self.infer(&entry.value).map(drop)
            }
        }
    }

    fn name(&mut self, name: &str) -> Result<Type, String> {
        if let Some((_, found)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return Ok(found.clone());
        }
        if TYPE_NAMES.contains(&name) {
            return Ok(Type::Any);
        }
        let near = did_you_mean(name, self.scope.iter().map(|(known, _)| known.as_str()));
        Err(format!("there is no `{name}`, only `event`{near}"))
    }

    fn field(&mut self, of: &Type, field: &str) -> Result<Type, String> {
        match of {
            Type::Any => Ok(Type::Any),
            Type::Map => Ok(Type::Text),
            Type::Fields(fields) => {
                let Some(found) = fields.get(field) else {
                    let near = match RESOURCE.get(field) {
                        Some(_) if fields.name == "event" => format!("; did you mean `event.resource.{field}`?"),
                        _ => did_you_mean(field, fields.names()),
                    };
                    let names = fields.names().collect::<Vec<_>>().join(", ");
                    return Err(format!("the {} has no field `{field}`, only {names}{near}", fields.name));
                };
                self.needs.values |= fields.name == "change" && matches!(field, "from" | "to");
                self.needs.patch |= fields.name == "event" && field == "patch";
                self.needs.object |= fields.name == "event" && field == "object";
                Ok(found)
            }
            other => Err(format!("{} has no field `{field}`", other.describe())),
        }
    }

    /// `x['name']` is `x.name`; with a name that is not written out, anything may be looked at.
    fn index(&mut self, of: &Type, by: Option<&Expression>) -> Result<Type, String> {
        match (of, by.map(|by| &by.expr)) {
            (Type::List(item), _) => Ok((**item).clone()),
            (Type::Fields(_), Some(Expr::Literal(LiteralValue::String(name)))) => {
                let name = name.inner().to_owned();
                self.field(of, &name)
            }
            (Type::Fields(_), _) => {
                self.needs = Needs::ALL;
                Ok(Type::Any)
            }
            (Type::Map, _) => Ok(Type::Text),
            (Type::Any, _) => Ok(Type::Any),
            (other, _) => Err(format!("{} has no parts to take by [ ]", other.describe())),
        }
    }

    fn comprehension(&mut self, it: &ComprehensionExpr) -> Result<Type, String> {
        let range = self.infer(&it.iter_range)?;
        let item = match range {
            Type::List(item) => *item,
            Type::Map => Type::Text,
            Type::Any => Type::Any,
            other => return Err(format!("{} is not a list to look through", other.describe())),
        };
        if self.loops == MAX_LOOPS {
            return Err(format!("loops more than {MAX_LOOPS} deep"));
        }
        let outside = self.scope.len();
        let start = self.infer(&it.accu_init)?;
        self.scope.push((it.accu_var.clone(), if start == Type::Bool { Type::Bool } else { Type::Any }));
        self.loops += 1;
        self.scope.push((it.iter_var.clone(), item));
        if let Some(second) = &it.iter_var2 {
            self.scope.push((second.clone(), Type::Any));
        }
        self.infer(&it.loop_cond)?;
        self.infer(&it.loop_step)?;
        self.loops -= 1;
        self.scope.truncate(outside + 1);
        let result = self.infer(&it.result);
        self.scope.truncate(outside);
        result
    }
}

fn function(name: &str, target: Option<&Type>, args: &[Type]) -> Result<Type, String> {
    let shown = |name: &str| name.replace(['_', '@'], "");
    let both = |wanted: &Type| match args.iter().find(|arg| !arg.may_be(wanted)) {
        Some(wrong) => Err(format!("`{}` takes {}, not {}", shown(name), wanted.describe(), wrong.describe())),
        None => Ok(()),
    };
    match name {
        operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT => {
            both(&Type::Bool)?;
            Ok(Type::Bool)
        }
        operators::EQUALS
        | operators::NOT_EQUALS
        | operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS => match args {
            [a, b] if !a.may_be(b) => Err(format!("{} is compared with {}", a.describe(), b.describe())),
            _ => Ok(Type::Bool),
        },
        operators::IN => match args {
            [_, Type::Any | Type::Map | Type::Fields(_)] => Ok(Type::Bool),
            [a, Type::List(item)] if a.may_be(item) => Ok(Type::Bool),
            [a, Type::List(item)] => {
                Err(format!("{} is looked for in a list of which each item is {}", a.describe(), item.describe()))
            }
            [_, other] => Err(format!("`in` needs a list or a map on its right, not {}", other.describe())),
            _ => Ok(Type::Bool),
        },
        operators::NOT_STRICTLY_FALSE => Ok(Type::Bool),
        operators::CONDITIONAL => match args {
            [test, ..] if !test.may_be(&Type::Bool) => Err(format!("`?` needs true or false, not {}", test.describe())),
            [_, a, b] if a == b => Ok(a.clone()),
            _ => Ok(Type::Any),
        },
        operators::ADD => Ok(if args.iter().all(|arg| *arg == Type::Text) { Type::Text } else { Type::Any }),
        _ if TEXT_METHODS.contains(&name) => {
            match target.into_iter().chain(args).find(|given| !given.may_be(&Type::Text)) {
                Some(wrong) => Err(format!("`{name}` is for texts, not for {}", wrong.describe())),
                None => Ok(Type::Bool),
            }
        }
        "size" => match target.into_iter().chain(args).next() {
            Some(wrong @ (Type::Bool | Type::Number)) => Err(format!("{} has no size", wrong.describe())),
            _ => Ok(Type::Number),
        },
        "string" => Ok(Type::Text),
        "int" | "uint" | "double" => Ok(Type::Number),
        "bool" => Ok(Type::Bool),
        _ if FUNCTIONS.contains(&name) || name.contains(['_', '@']) => Ok(Type::Any),
        _ => {
            let words =
                TEXT_METHODS.iter().chain(&FUNCTIONS).chain(&["has", "all", "exists", "exists_one", "map", "filter"]);
            Err(format!("there is no function `{name}`{}", did_you_mean(name, words.copied())))
        }
    }
}

/// How deep expressions lie within each other.
pub(super) fn depth(expression: &Expression) -> usize {
    let mut deepest = 0;
    children(expression, &mut |child| deepest = deepest.max(depth(child)));
    deepest + 1
}

/// Nodes that an evaluation visits: once, per item of a list, per pair of items.
fn cost(expression: &Expression) -> [u64; 3] {
    let mut sum = [1u64, 0, 0];
    let mut add = |part: [u64; 3]| {
        for (all, one) in sum.iter_mut().zip(part) {
            *all = all.saturating_add(one);
        }
    };
    if let Expr::Comprehension(it) = &expression.expr {
        add(cost(&it.iter_range));
        add(cost(&it.accu_init));
        add(cost(&it.result));
        for each in [&it.loop_cond, &it.loop_step] {
            let [once, per_item, per_pair] = cost(each);
            add([0, once, per_item.saturating_add(per_pair)]);
        }
        return sum;
    }
    children(expression, &mut |child| add(cost(child)));
    sum
}

pub(super) fn children(expression: &Expression, visit: &mut dyn FnMut(&Expression)) {
    match &expression.expr {
        Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).for_each(visit),
        Expr::List(list) => list.elements.iter().for_each(visit),
        Expr::Select(select) => visit(&select.operand),
        Expr::Comprehension(it) => {
            [&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result].into_iter().for_each(visit);
        }
        Expr::Map(map) => map.entries.iter().for_each(|entry| entry_children(&entry.expr, visit)),
        Expr::Struct(made) => made.entries.iter().for_each(|entry| entry_children(&entry.expr, visit)),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

fn entry_children(entry: &EntryExpr, visit: &mut dyn FnMut(&Expression)) {
    match entry {
        EntryExpr::StructField(field) => visit(&field.value),
        EntryExpr::MapEntry(entry) => {
            visit(&entry.key);
            visit(&entry.value);
        }
    }
}

/// As [`children`], to change them.
pub(super) fn children_mut<E>(
    expression: &mut Expression,
    visit: &mut dyn FnMut(&mut Expression) -> Result<(), E>,
) -> Result<(), E> {
    match &mut expression.expr {
        Expr::Call(call) => {
            call.target.iter_mut().map(|target| &mut **target).chain(&mut call.args).try_for_each(visit)
        }
        Expr::List(list) => list.elements.iter_mut().try_for_each(visit),
        Expr::Select(select) => visit(&mut select.operand),
        Expr::Comprehension(it) => {
            let it = &mut **it;
            [&mut it.iter_range, &mut it.accu_init, &mut it.loop_cond, &mut it.loop_step, &mut it.result]
                .into_iter()
                .try_for_each(visit)
        }
        Expr::Map(map) => map.entries.iter_mut().try_for_each(|entry| match &mut entry.expr {
            EntryExpr::StructField(field) => visit(&mut field.value),
            EntryExpr::MapEntry(entry) => visit(&mut entry.key).and_then(|()| visit(&mut entry.value)),
        }),
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Ok(()),
    }
}
