//! Service, Ingress, NetworkPolicy.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Sentence, Update, words};
use crate::{diff::Op, event::path::Spot};

/// `http 80 -> 8080/TCP`, in the words of a Service's ports.
fn port(port: &Value) -> String {
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    let number = words::value(&port["port"]);
    match words::text(&port["name"]) {
        "" => format!("{number}/{protocol}"),
        name => format!("{} {number}/{protocol}", words::one_line(name)),
    }
}

fn address(ingress: &Value) -> &str {
    ingress["ip"].as_str().or_else(|| ingress["hostname"].as_str()).unwrap_or("")
}

/// `load balancer is 203.0.113.7`, for Services and Ingresses.
fn load_balancer(update: &Update<'_>, sentence: &mut Sentence) {
    if !update.touches(&["status", "loadBalancer"]) {
        return;
    }
    let addresses = |value: &Value| words::items(value).iter().map(|i| address(i).to_owned()).collect::<Vec<_>>();
    let was = addresses(update.was("/status/loadBalancer/ingress"));
    let is = addresses(update.is("/status/loadBalancer/ingress"));
    if was == is {
        return;
    }
    sentence.tell(update, &["status"]);
    sentence.say(match (was.is_empty(), is.is_empty()) {
        (_, true) => format!("load balancer {} gone", words::list(&was, 3)),
        (true, false) => format!("load balancer is {}", words::list(&is, 3)),
        (false, false) => format!("load balancer {} -> {}", words::list(&was, 3), words::list(&is, 3)),
    });
}

pub(super) fn service(update: &Update<'_>, sentence: &mut Sentence) {
    for (index, spot) in update.spots.iter().enumerate() {
        let part = if spot.is(&["spec", "ports", "*"]) {
            match spot.change.op {
                Op::Add => format!("port {} added", port(spot.item(2))),
                Op::Remove => format!("port {} removed", port(spot.item(2))),
                _ => continue,
            }
        } else if spot.is(&["spec", "ports", "*", "*"]) {
            let name = words::text(&spot.item(2)["name"]);
            let of = if name.is_empty() { words::value(&spot.item(2)["port"]) } else { words::one_line(name) };
            match spot.key(3) {
                "port" => words::change(&format!("port {of}"), spot.from(), spot.to()),
                "targetPort" => words::change(&format!("target of port {of}"), spot.from(), spot.to()),
                "nodePort" => words::change(&format!("node port of {of}"), spot.from(), spot.to()),
                key => words::change(&format!("{key} of port {of}"), spot.from(), spot.to()),
            }
        } else if spot.is(&["spec", "selector", "*"]) {
            words::change(&format!("selector {}", words::one_line(spot.key(2))), spot.from(), spot.to())
        } else {
            continue;
        };
        sentence.say(part);
        sentence.told[index] = true;
    }
    load_balancer(update, sentence);
}

/// `shop.example.com/api`.
fn route(rule: &Value, path: &Value) -> String {
    let host = rule["host"].as_str().unwrap_or("*");
    words::one_line(&format!("{host}{}", path["path"].as_str().unwrap_or("")))
}

/// `web:80`.
fn backend(path: &Value) -> String {
    let service = &path["backend"]["service"];
    let port = [&service["port"]["number"], &service["port"]["name"]].into_iter().find(|p| !p.is_null());
    match (service["name"].as_str(), port) {
        (Some(name), Some(port)) => format!("{name}:{}", words::value(port)),
        (Some(name), None) => name.to_owned(),
        _ => words::value(&path["backend"]["resource"]["name"]),
    }
}

pub(super) fn ingress(update: &Update<'_>, sentence: &mut Sentence) {
    let routes = |document: &Value| {
        let mut routes = Vec::new();
        for rule in words::items(&document["spec"]["rules"]) {
            for path in words::items(&rule["http"]["paths"]) {
                routes.push((route(rule, path), backend(path)));
            }
        }
        routes
    };
    if update.touches(&["spec", "rules"]) {
        let (was, is) = (routes(update.old), routes(update.new));
        let backends: HashMap<&String, &String> = was.iter().map(|(route, to)| (route, to)).collect();
        let served: HashSet<&String> = is.iter().map(|(route, _)| route).collect();
        let before = sentence.parts.len();
        for (route, to) in &is {
            match backends.get(route) {
                None => sentence.say(format!("{route} now goes to {to}")),
                Some(from) if *from != to => sentence.say(format!("{route} goes to {to} (was {from})")),
                Some(_) => {}
            }
        }
        for (route, _) in was.iter().filter(|(route, _)| !served.contains(route)) {
            sentence.say(format!("{route} no longer served"));
        }
        if sentence.parts.len() > before {
            sentence.tell(update, &["spec", "rules"]);
        }
    }
    for (index, spot) in update.spots.iter().enumerate() {
        let part = if spot.is(&["spec", "ingressClassName"]) {
            words::change("class", spot.from(), spot.to())
        } else if let Some(part) = tls(spot) {
            part
        } else {
            continue;
        };
        sentence.say(part);
        sentence.told[index] = true;
    }
    load_balancer(update, sentence);
}

fn tls(spot: &Spot<'_>) -> Option<String> {
    if !spot.starts(&["spec", "tls"]) {
        return None;
    }
    let hosts = |entry: &Value| {
        let hosts: Vec<&str> = words::items(&entry["hosts"]).iter().map(words::text).collect();
        if hosts.is_empty() { "all hosts".to_owned() } else { words::list(&hosts, 3) }
    };
    match (spot.len(), spot.change.op) {
        (2, Op::Add) => Some("TLS switched on".into()),
        (2, Op::Remove) => Some("TLS switched off".into()),
        (3, Op::Add) => Some(format!("TLS for {} added", hosts(spot.item(2)))),
        (3, Op::Remove) => Some(format!("TLS for {} removed", hosts(spot.item(2)))),
        (4, _) if spot.key(3) == "secretName" => {
            Some(words::change(&format!("certificate for {}", hosts(spot.item(2))), spot.from(), spot.to()))
        }
        _ => None,
    }
}

/// Who a rule lets through, as far as a few words go.
fn peers(rule: &Value, key: &str) -> String {
    let peers = words::items(&rule[key]);
    if peers.is_empty() {
        return "everyone".into();
    }
    let labels = |selector: &Value| {
        let labels = selector["matchLabels"].as_object();
        let labels = labels.into_iter().flatten().map(|(key, value)| format!("{key}={}", words::value(value)));
        labels.collect::<Vec<_>>().join(",")
    };
    let named = peers.iter().map(|peer| {
        let (pods, namespaces) = (&peer["podSelector"], &peer["namespaceSelector"]);
        match (peer["ipBlock"]["cidr"].as_str(), pods.is_null(), namespaces.is_null()) {
            (Some(cidr), ..) => cidr.to_owned(),
            (_, true, false) => format!("namespaces {}", labels(namespaces)),
            (_, false, true) => format!("pods {}", labels(pods)),
            _ => format!("pods {} in namespaces {}", labels(pods), labels(namespaces)),
        }
    });
    let named: Vec<String> = named.map(|peer| peer.trim_end().to_owned()).collect();
    words::cut(&words::list(&named, 3), words::VALUE)
}

pub(super) fn policy(update: &Update<'_>, sentence: &mut Sentence) {
    for (index, spot) in update.spots.iter().enumerate() {
        let (way, side) = match spot.key(1) {
            "ingress" => ("from", "ingress"),
            "egress" => ("to", "egress"),
            "podSelector" if spot.key(0) == "spec" => {
                sentence.say("selects other pods");
                sentence.told[index] = true;
                continue;
            }
            _ => continue,
        };
        let part = match (spot.len(), spot.change.op) {
            (2, Op::Add) => format!("{side} rules added: {way} {}", all_peers(spot.to(), way)),
            (2, Op::Remove) => format!("{side} rules removed"),
            (3, Op::Add) => format!("now also allows {side} {way} {}", peers(spot.item(2), way)),
            (3, Op::Remove) => format!("no longer allows {side} {way} {}", peers(spot.item(2), way)),
            (1 | 2, _) => continue,
            _ => format!("{side} {way} {} changed", peers(spot.item(2), way)),
        };
        sentence.say(part);
        sentence.told[index] = true;
    }
}

fn all_peers(rules: &Value, way: &str) -> String {
    let rules: Vec<String> = words::items(rules).iter().map(|rule| peers(rule, way)).collect();
    if rules.is_empty() { "nobody".into() } else { words::list(&rules, 3) }
}
