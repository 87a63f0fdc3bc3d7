//! Where events go, and why.

use super::*;

fn rules(toml: &str) -> Rules {
    #[derive(Deserialize)]
    #[serde(default)]
    struct Written {
        default_sinks: Vec<String>,
        annotations: bool,
        routes: Vec<Route>,
        silences: Vec<Silence>,
    }
    impl Default for Written {
        fn default() -> Self {
            Self { default_sinks: Vec::new(), annotations: true, routes: Vec::new(), silences: Vec::new() }
        }
    }
    let written: Written = toml::from_str(toml).unwrap_or_else(|error| panic!("{error}"));
    Rules {
        sinks: ["audit", "log", "ops", "team"].map(String::from).to_vec(),
        routes: written.routes,
        default_sinks: written.default_sinks,
        silences: written.silences,
        annotations: written.annotations,
    }
}

fn table(toml: &str) -> Table {
    Table::new(&rules(toml)).unwrap_or_else(|error| panic!("{error}"))
}

fn sinks(decision: &Decision) -> Vec<&str> {
    decision.sinks.iter().map(|sink| &**sink).collect()
}

fn goes(toml: &str, event: &Event) -> Vec<String> {
    let (table, context) = (table(toml), Context::at(now()));
    let decision = table.route(event, &context);
    assert_eq!(table.explain(event, &context).decision, decision, "both say the same");
    assert_eq!(decision.dropped.is_some(), decision.sinks.is_empty(), "{decision:?}");
    sinks(&decision).into_iter().map(String::from).collect()
}

#[test]
fn without_routes_everything_goes_everywhere() {
    assert_eq!(goes("", &event()), ["audit", "log", "ops", "team"]);
    assert_eq!(goes("default_sinks = ['log']", &event()), ["log"]);
}

#[test]
fn the_first_route_that_takes_an_event_ends_the_search_unless_it_continues() {
    let routes = "[[routes]]\nmatch = { namespaces = ['prod-*'] }\nsinks = ['ops']\ncontinue = true\n\
                  [[routes]]\nmatch = { kinds = ['Pod'] }\nsinks = ['team']\n\
                  [[routes]]\nsinks = ['log', 'audit']\n[[routes]]\nsinks = ['team']\n";
    assert_eq!(goes(routes, &event()), ["audit", "log", "ops"]);
    let mut other = event();
    other.resource.namespace = "test".into();
    assert_eq!(goes(routes, &other), ["audit", "log"]);
}

#[test]
fn a_sink_that_two_routes_name_gets_an_event_once() {
    let routes = "[[routes]]\nsinks = ['ops', 'log']\ncontinue = true\n[[routes]]\nsinks = ['log', 'ops']\n";
    assert_eq!(goes(routes, &event()), ["log", "ops"]);
}

#[test]
fn what_no_route_takes_goes_to_the_default_or_is_dropped_as_such() {
    let routes = "[[routes]]\nmatch = { kinds = ['Pod'] }\nsinks = ['ops']\n";
    assert_eq!(goes(&format!("default_sinks = ['audit']\n{routes}"), &event()), ["audit"]);
    let decision = table(routes).route(&event(), &Context::at(now()));
    assert_eq!(decision.dropped, Some(Dropped::NoRoute));
    let nothing = table("[[routes]]\nname = 'void'\n").route(&event(), &Context::at(now()));
    assert_eq!(nothing.dropped, Some(Dropped::NoSink));
}

#[test]
fn a_filter_drops_with_its_reason_and_keeps_what_earlier_routes_sent() {
    let filter = "[[routes]]\nmatch = { classes = ['image'] }\ndrop = 'images'\n[[routes]]\nsinks = ['log']\n";
    let decision = table(filter).route(&event(), &Context::at(now()));
    assert_eq!(decision.dropped.as_ref().map(Dropped::reason), Some("images"));
    let kept = format!("[[routes]]\nsinks = ['audit']\ncontinue = true\n{filter}");
    assert_eq!(goes(&kept, &event()), ["audit"]);
}

#[test]
fn routes_within_a_route_come_first_and_it_keeps_what_they_leave() {
    let routes = "[[routes]]\nname = 'prod'\nmatch = { namespaces = ['prod-*'] }\nsinks = ['ops']\n\
                  [[routes.routes]]\nmatch = { kinds = ['Pod'] }\nsinks = ['team']\n\
                  [[routes.routes]]\nmatch = { kinds = ['Deployment'], classes = ['scale'] }\ndrop = 'scaling'\n\
                  [[routes.routes]]\nname = 'inherits'\nmatch = { kinds = ['Job'] }\n\
                  [[routes]]\nsinks = ['log']\n";
    let of = |kind: &str, classes: &[Class]| {
        let mut event = Event { classes: classes.to_vec(), ..event() };
        event.resource.kind = kind.into();
        event.resource.resource = kind.to_lowercase();
        event
    };
    assert_eq!(goes(routes, &of("Deployment", &[])), ["ops"]);
    assert_eq!(goes(routes, &of("Pod", &[])), ["team"]);
    assert_eq!(goes(routes, &of("Job", &[])), ["ops"]);
    let dropped = table(routes).route(&of("Deployment", &[Class::Scale]), &Context::at(now())).dropped;
    assert_eq!(dropped.as_ref().map(Dropped::reason), Some("scaling"));
}

#[test]
fn an_expression_that_fails_is_reported_and_takes_nothing() {
    let routes = "[[routes]]\nname = 'heavy'\nsinks = ['ops']\n\
                  match = { when = 'event.changes.exists(a, event.changes.exists(b, a.path == b.field))' }\n\
                  [[routes]]\nsinks = ['log']\n";
    let many = Event { changes: vec![event().changes[0].clone(); 5_000], ..event() };
    let decision = table(routes).route(&many, &Context::at(now()));
    assert_eq!(sinks(&decision), ["log"]);
    assert_eq!(&*decision.failures[0].0, "heavy");
    let step = &table(routes).explain(&many, &Context::at(now())).steps[0];
    assert!(step.to_string().starts_with("failed heavy: when: the expression could take"), "{step}");
}

#[test]
fn annotations_ignore_objects_and_choose_sinks() {
    let table = table("[[routes]]\nsinks = ['log']\n");
    let map = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let (ignore, off) = (map(IGNORE, "true"), map(IGNORE, "false"));
    let decide = |object: &BTreeMap<_, _>, namespace: &BTreeMap<_, _>, event: &Event| {
        table.route(event, &Context { annotations: object, namespace_annotations: namespace, ..Context::at(now()) })
    };
    assert_eq!(decide(&ignore, &NONE, &event()).dropped, Some(Dropped::Ignored));
    assert_eq!(decide(&NONE, &ignore, &event()).dropped, Some(Dropped::Ignored));
    assert_eq!(sinks(&decide(&off, &NONE, &event())), ["log"]);

    let (team, both) = (map(SINKS, "team"), map(SINKS, "ops, nobody,audit"));
    assert_eq!(sinks(&decide(&team, &both, &event())), ["team"]);
    let decision = decide(&NONE, &both, &event());
    assert_eq!(sinks(&decision), ["audit", "ops"]);
    assert_eq!(decision.unknown_sinks, ["nobody"]);
    assert_eq!(sinks(&decide(&map(SINKS, "nobody"), &NONE, &event())), ["log"], "no known sink: the routes decide");

    let mut hides = event();
    hides.changes[0].path = "/metadata/annotations/kubediff.io~1ignore".into();
    assert_eq!(sinks(&decide(&ignore, &NONE, &hides)), ["log"], "the change that hides the object is told");
    let created = Event { kind: Kind::Created, changes: Vec::new(), ..event() };
    assert_eq!(sinks(&decide(&ignore, &NONE, &created)), ["log"], "nor can it be made in hiding");
    assert_eq!(sinks(&decide(&team, &NONE, &created)), ["log", "team"], "nor be taken from those who watch");
    hides.changes[0].path = "/metadata/annotations/kubediff.io~1sinks".into();
    assert_eq!(sinks(&decide(&team, &NONE, &hides)), ["log", "team"]);
}

#[test]
fn annotations_can_be_switched_off() {
    let table = table("annotations = false\n[[routes]]\nsinks = ['log']\n");
    let all = BTreeMap::from([(IGNORE.to_owned(), "true".to_owned()), (SINKS.to_owned(), "ops".to_owned())]);
    let context = Context { annotations: &all, namespace_annotations: &all, ..Context::at(now()) };
    assert_eq!(sinks(&table.route(&event(), &context)), ["log"]);
}

#[test]
fn a_silence_holds_in_its_window_for_its_sinks_and_for_what_it_matches() {
    let at = |time: &str| time.parse::<Timestamp>().unwrap();
    let table = table(
        "[[silences]]\nname = 'migration'\nreason = 'r'\nsinks = ['ops', 'team']\nmatch = { namespaces = ['prod-*'] }\n\
         from = '2026-11-16T07:00:00Z'\nuntil = '2026-11-16T08:00:00Z'\n\
         [[silences]]\nname = 'nightly'\nreason = 'r'\nhours = ['02:00-03:00']\n",
    );
    let of = |time: &str, event: &Event| table.route(event, &Context::at(at(time)));
    let during = of("2026-11-16T07:30:00Z", &event());
    assert_eq!(sinks(&during), ["audit", "log"]);
    assert_eq!(
        during.silenced.iter().map(|(sink, by)| (&**sink, &**by)).collect::<Vec<_>>(),
        [("ops", "migration"), ("team", "migration")]
    );
    for outside in ["2026-11-16T06:59:59Z", "2026-11-16T08:00:00Z"] {
        assert_eq!(of(outside, &event()).sinks.len(), 4, "{outside}");
    }
    let mut other = event();
    other.resource.namespace = "test".into();
    assert_eq!(of("2026-11-16T07:30:00Z", &other).sinks.len(), 4);
    let night = of("2026-11-17T02:30:00Z", &event());
    assert_eq!(night.dropped, Some(Dropped::Silenced("nightly".into())));
}

#[test]
fn silences_that_were_made_later_count_like_those_of_the_configuration() {
    let silence = Silence {
        name: "s-1".into(),
        matching: matching("namespaces = ['prod-shop']\nwhen = \"event.object == event.object\""),
        reason: "deploying".into(),
        until: Some("2026-11-16T08:00:00Z".parse().unwrap()),
        ..Silence::default()
    };
    let stored: Silence = serde_json::from_str(&serde_json::to_string(&silence).unwrap()).unwrap();
    assert_eq!(stored, silence);
    let silences = [Silencing::new(&stored).unwrap()];
    let decision = table("").route(&event(), &Context { silences: &silences, ..Context::at(now()) });
    assert_eq!(decision.dropped, Some(Dropped::Silenced("s-1".into())));
    assert!(!silences[0].over(now()) && silences[0].over("2026-11-16T08:00:00Z".parse().unwrap()));
}

#[test]
fn an_explanation_names_every_route_that_was_asked_and_the_matcher_that_said_no() {
    let table = table(
        "[[routes]]\nname = 'pods'\nmatch = { kinds = ['Pod', 'Job'] }\nsinks = ['ops']\n\
         [[routes]]\nname = 'prod'\nmatch = { namespaces = ['prod-*'] }\nsinks = ['ops']\ncontinue = true\n\
         [[routes.routes]]\nname = 'argo'\nmatch = { managers = ['argocd*'] }\nsinks = ['team']\n\
         [[routes]]\nmatch = { labels = 'app=web' }\ndrop = 'done'\n[[routes]]\nsinks = ['log']\n",
    );
    let explanation = table.explain(&event(), &Context::at(now()));
    let lines: Vec<_> = explanation.steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "no     pods: kinds wants Pod, Job, the event has Deployment",
            "yes    prod",
            "  no     argo: managers wants argocd*, the event has kubectl-edit",
            "drop   routes[2]: done",
        ]
    );
    assert_eq!(sinks(&explanation.decision), ["ops"]);
}

#[test]
fn a_table_that_cannot_be_built_says_where() {
    let error = |toml: &str| Table::new(&rules(toml)).unwrap_err().to_string();
    assert_eq!(error("[[routes]]\nsinks = ['nobody']\n"), "routes[0]: there is no sink `nobody`");
    assert_eq!(error("[[silences]]\nsinks = ['nobody']\n"), "silence: there is no sink `nobody`");
    assert!(error("[[routes]]\nname = 'r'\nmatch = { when = 'x' }\n").starts_with("route r: when: there is no `x`"));
    let deep = (1..=9).map(|depth| format!("[[{}]]\n", vec!["routes"; depth].join("."))).collect::<String>();
    assert_eq!(error(&deep), "route routes[0.0.0.0.0.0.0.0.0] lies more than 8 routes deep");
}
