//! `kubediff rbac`: the smallest roles that a configuration needs, from what the cluster serves.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
};

use kubediff::{
    cluster::{
        Resource, Scope,
        select::{self, Verdict},
        source::Source,
    },
    config::{Lookup, Plan, Sources},
    shutdown::Shutdown,
    web::Auth,
};

use super::{Usage, connect};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff rbac --config kubediff.toml                              print the role
  kubediff rbac --config kubediff.toml --bind tools/kubediff | kubectl apply -f -
                                                                    and let a ServiceAccount have it

The verbs are list and watch, and what the page needs to ask who may see what when others can reach it. Of several
replicas each writes their one Lease, in ha.namespace or that of the ServiceAccount, and may create it unless
ha.create_lease is off. Whoever runs this command has to be allowed to list nothing: discovery, which every user
may read, is enough.")]
pub(crate) struct Args {
    /// The configuration that says what is watched
    #[arg(long, short, value_name = "FILE", env = "KUBEDIFF_CONFIG")]
    config: Option<PathBuf>,
    /// The name of the roles
    #[arg(long, default_value = "kubediff")]
    name: String,
    /// Print bindings for this ServiceAccount, too
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account)]
    bind: Option<Account>,
    #[command(flatten)]
    cluster: connect::Options,
}

#[derive(Clone, Debug)]
struct Account {
    namespace: String,
    name: String,
}

fn account(text: &str) -> Result<Account, String> {
    let (namespace, name) = text.split_once('/').ok_or("write it as NAMESPACE/NAME")?;
    Ok(Account { namespace: namespace.to_owned(), name: name.to_owned() })
}

pub(crate) async fn run(args: Args, _: Shutdown) -> anyhow::Result<()> {
    let mut sources = Sources::new(args.config);
    // What is sent where is of no interest here.
    sources.lookup = Lookup::Skip;
    let plan = sources.load().map_err(|problems| Usage(problems.into()))?;
    let connected = args.cluster.connect(&[]).await?;
    let found = connected.api.discover().await?;
    let mut out = io::stdout().lock();
    for gone in &found.unavailable {
        writeln!(
            out,
            "# {}/{} did not answer ({}): what it serves is not in here.",
            gone.group, gone.version, gone.reason
        )?;
    }
    let resources: Vec<Arc<Resource>> = found.resources.into_iter().map(Arc::new).collect();
    let mut roles = roles(&plan, &resources);
    if roles.iter().all(|role| role.namespace.is_some()) {
        writeln!(
            out,
            "# No ClusterRole, so the kube-system namespace cannot be read: events carry no cluster uid, and need none."
        )?;
    }
    if let Some(ha) = &plan.ha {
        match ha.namespace.clone().or_else(|| args.bind.as_ref().map(|account| account.namespace.clone())) {
            Some(namespace) => roles.push(lease(namespace, &ha.lease, ha.create_lease)),
            None => writeln!(
                out,
                "# Several replicas need a Role for their Lease, too: say where by --bind or ha.namespace."
            )?,
        }
    }
    for role in roles {
        write!(out, "{}", role.yaml(&args.name, args.bind.as_ref()))?;
    }
    Ok(())
}

/// A Role, or a ClusterRole where it names no namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Role {
    /// What its name ends in.
    suffix: &'static str,
    namespace: Option<String>,
    rules: Vec<Rule>,
}

#[derive(Debug, PartialEq, Eq)]
struct Rule {
    group: String,
    resources: BTreeSet<String>,
    /// `None`: all of them.
    object: Option<String>,
    verbs: &'static [&'static str],
}

const READ: &[&str] = &["list", "watch"];

/// One role for the cluster, or one for each of the namespaces that the configuration names.
fn roles(plan: &Plan, resources: &[Arc<Resource>]) -> Vec<Role> {
    let selected = select::plan(&plan.select, resources, &BTreeSet::new());
    let mut by_group: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (resource, _) in selected.verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Read(_))) {
        by_group.entry(&resource.group).or_default().insert(resource.plural.clone());
    }
    let in_all = plan.select.namespaces.is_all();
    // Namespaces that are still to come can be read by no Role.
    let by_pattern = plan.select.namespaces.needs_live();
    if by_pattern {
        by_group.entry("").or_default().insert("namespaces".into());
    }
    let read = || -> Vec<Rule> {
        let rule = |(group, resources): (&&str, &BTreeSet<String>)| Rule {
            group: (*group).to_owned(),
            resources: resources.clone(),
            object: None,
            verbs: READ,
        };
        by_group.iter().map(rule).collect()
    };
    let mut cluster = Role::default();
    let mut roles = Vec::new();
    if in_all || by_pattern {
        cluster.rules = read();
        if !by_group.get("").is_some_and(|core| core.contains("namespaces")) {
            // By its uid a cluster is known.
            let resources = BTreeSet::from(["namespaces".to_owned()]);
            cluster.rules.push(Rule {
                group: String::new(),
                resources,
                object: Some("kube-system".into()),
                verbs: &["list"],
            });
        }
    } else {
        let names: BTreeSet<String> = selected
            .feeds
            .iter()
            .filter_map(|feed| match &feed.scope {
                Scope::Namespace(name) => Some(name.clone()),
                Scope::All => None,
            })
            .collect();
        roles.extend(names.into_iter().map(|name| Role { suffix: "", namespace: Some(name), rules: read() }));
    }
    let asks = |page: SocketAddr| match plan.server.auth {
        Auth::Auto => !page.ip().is_loopback(),
        Auth::Token => true,
        Auth::None => false,
    };
    if plan.server.page.is_some_and(asks) {
        for (group, resource) in
            [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")]
        {
            let resources = BTreeSet::from([resource.to_owned()]);
            cluster.rules.push(Rule { group: group.to_owned(), resources, object: None, verbs: &["create"] });
        }
    }
    if !cluster.rules.is_empty() {
        roles.insert(0, cluster);
    }
    roles
}

/// RBAC cannot name what is not there yet, so anyone who may create one Lease may create others.
fn lease(namespace: String, name: &str, create: bool) -> Role {
    let rule = |object: Option<&str>, verbs| Rule {
        group: "coordination.k8s.io".into(),
        resources: BTreeSet::from(["leases".to_owned()]),
        object: object.map(str::to_owned),
        verbs,
    };
    let mut rules = vec![rule(Some(name), &["get", "update"])];
    if create {
        rules.push(rule(None, &["create"]));
    }
    Role { suffix: "-lease", namespace: Some(namespace), rules }
}

impl Role {
    fn yaml(&self, name: &str, bind: Option<&Account>) -> String {
        let name = &format!("{name}{}", self.suffix);
        let kind = if self.namespace.is_some() { "Role" } else { "ClusterRole" };
        let mut out = self.head(kind, name);
        out.push_str("rules:\n");
        for rule in &self.rules {
            let list = |texts: &mut dyn Iterator<Item = &str>| -> String { texts.collect::<Vec<_>>().join(", ") };
            let _ = writeln!(out, "  - apiGroups: [\"{}\"]", rule.group);
            let _ = writeln!(out, "    resources: [{}]", list(&mut rule.resources.iter().map(String::as_str)));
            if let Some(object) = &rule.object {
                let _ = writeln!(out, "    resourceNames: [{object}]");
            }
            let _ = writeln!(out, "    verbs: [{}]", list(&mut rule.verbs.iter().copied()));
        }
        if let Some(account) = bind {
            out += &self.head(&format!("{kind}Binding"), name);
            let _ = write!(
                out,
                "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: {name}}}\nsubjects:\n  \
                 - {{kind: ServiceAccount, name: {}, namespace: {}}}\n",
                account.name, account.namespace
            );
        }
        out
    }

    fn head(&self, kind: &str, name: &str) -> String {
        let mut out =
            format!("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n");
        if let Some(namespace) = &self.namespace {
            let _ = writeln!(out, "  namespace: {namespace}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles_of(config: &str) -> Vec<Role> {
        let sources = Sources { path: None, variables: Vec::new(), lookup: Lookup::Skip };
        let plan = sources.build("kubediff.toml", config).unwrap_or_else(|problems| panic!("{problems}"));
        let apps = |plural: &str, kind: &str| Resource { group: "apps".into(), ..Resource::core("v1", plural, kind) };
        let served = [
            Resource::core("v1", "pods", "Pod"),
            Resource::core("v1", "secrets", "Secret"),
            Resource::core("v1", "events", "Event"),
            Resource::core("v1", "namespaces", "Namespace").cluster_scoped(),
            apps("deployments", "Deployment"),
        ];
        roles(&plan, &served.map(Arc::new))
    }

    fn words(role: &Role) -> Vec<String> {
        let word = |rule: &Rule| {
            let resources: Vec<_> = rule.resources.iter().map(String::as_str).collect();
            let object = rule.object.as_ref().map(|object| format!("={object}")).unwrap_or_default();
            format!("{}/{}{object} {}", rule.group, resources.join("+"), rule.verbs.join("+"))
        };
        role.rules.iter().map(word).collect()
    }

    #[test]
    fn what_is_watched_may_be_read_and_nothing_else() {
        let all = roles_of("");
        assert_eq!(words(&all[0]), ["/namespaces+pods+secrets list+watch", "apps/deployments list+watch"]);
        assert_eq!((all.len(), &all[0].namespace), (1, &None));
        let some = roles_of("[watch]\ninclude = [\"Deployment\"]\n");
        assert_eq!(words(&some[0]), ["apps/deployments list+watch", "/namespaces=kube-system list"]);
        let none = roles_of("[watch]\nsecrets = \"off\"\n");
        assert_eq!(words(&none[0])[0], "/namespaces+pods list+watch");
    }

    #[test]
    fn named_namespaces_need_no_cluster_role_and_patterns_do() {
        let named = roles_of("[watch]\nnamespaces = [\"shop\", \"pay\"]\nsecrets = \"off\"\n");
        let places: Vec<_> = named.iter().map(|role| role.namespace.as_deref()).collect();
        assert_eq!(places, [Some("pay"), Some("shop")]);
        assert_eq!(words(&named[0]), ["/pods list+watch", "apps/deployments list+watch"]);
        let pattern = roles_of("[watch]\nnamespaces = [\"team-*\"]\ninclude = [\"Deployment\"]\n");
        assert_eq!(words(&pattern[0]), ["/namespaces list+watch", "apps/deployments list+watch"]);
        assert_eq!(pattern[0].namespace, None);
    }

    #[test]
    fn replicas_may_write_their_one_lease() {
        let role = lease("tools".into(), "kubediff", true);
        assert_eq!(
            words(&role),
            ["coordination.k8s.io/leases=kubediff get+update", "coordination.k8s.io/leases create"]
        );
        let given = lease("tools".into(), "kubediff", false);
        assert_eq!(words(&given), ["coordination.k8s.io/leases=kubediff get+update"], "it is there already");
        let yaml = role.yaml("reader", None);
        assert!(yaml.contains("name: reader-lease\n  namespace: tools\n"), "{yaml}");
    }

    #[test]
    fn a_page_that_others_reach_may_ask_who_they_are() {
        let open = roles_of("[server]\npage = \"0.0.0.0:8080\"\n[watch]\nnamespaces = [\"shop\"]\n");
        assert_eq!(
            words(&open[0]),
            ["authentication.k8s.io/tokenreviews create", "authorization.k8s.io/subjectaccessreviews create"]
        );
        assert_eq!((&open[0].namespace, open[1].namespace.as_deref()), (&None, Some("shop")));
        let closed = roles_of("[server]\npage = \"127.0.0.1:8080\"\n[watch]\nnamespaces = [\"shop\"]\n");
        assert_eq!(closed.len(), 1);
    }
}
