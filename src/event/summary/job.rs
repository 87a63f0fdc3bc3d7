//! Job and CronJob.

use serde_json::Value;

use super::{Sentence, Update, words};

fn suspended(update: &Update<'_>, sentence: &mut Sentence) {
    if update.touches(&["spec", "suspend"]) {
        let now = update.is("/spec/suspend") == &Value::Bool(true);
        sentence.say(format!("{} {}", update.resource.kind, if now { "suspended" } else { "resumed" }));
        sentence.tell(update, &["spec", "suspend"]);
    }
}

pub(super) fn job(update: &Update<'_>, sentence: &mut Sentence) {
    suspended(update, sentence);
    if !update.touches(&["status"]) {
        return;
    }
    let (was, is) = (&update.old["status"], &update.new["status"]);
    let became = |kind: &str| {
        let after = words::condition(is, kind);
        (after["status"] == "True" && words::condition(was, kind)["status"] != "True").then_some(after)
    };
    let number = |status: &Value, key: &str| words::number(&status[key]);
    if let Some(failed) = became("Failed") {
        let why = [&failed["message"], &failed["reason"]].map(words::message).into_iter().find(|why| !why.is_empty());
        sentence.say(why.map_or("Job failed".to_owned(), |why| format!("Job failed: {why}")));
    } else if became("Complete").is_some() {
        sentence.say(match number(is, "succeeded") {
            0 | 1 => "Job completed".to_owned(),
            pods => format!("Job completed: {}", words::count(pods, "pod")),
        });
    } else if number(was, "failed") < number(is, "failed") {
        sentence.say(format!("Job: {} failed", words::count(number(is, "failed"), "pod")));
    } else if number(was, "succeeded") < number(is, "succeeded") {
        let of = update.is("/spec/completions").as_i64().map_or(String::new(), |all| format!(" of {all}"));
        sentence.say(format!("Job: {}{of} succeeded", number(is, "succeeded")));
    } else if number(was, "active") < number(is, "active") {
        sentence.say(if number(was, "active") == 0 && was["startTime"].is_null() {
            "Job started".to_owned()
        } else {
            format!("Job: {} active", words::count(number(is, "active"), "pod"))
        });
    } else {
        return;
    }
    sentence.tell(update, &["status"]);
}

pub(super) fn cron_job(update: &Update<'_>, sentence: &mut Sentence) {
    suspended(update, sentence);
    if !update.touches(&["status"]) {
        return;
    }
    let names = |status: &Value| -> Vec<String> {
        words::items(&status["active"]).iter().map(|job| words::text(&job["name"]).to_owned()).collect()
    };
    let (was, is) = (names(&update.old["status"]), names(&update.new["status"]));
    let started = words::beyond(&is, &was);
    let ended = words::beyond(&was, &is);
    if !started.is_empty() {
        sentence.say(format!("CronJob started {}", words::list(&started, 3)));
    } else if update.changed("/status/lastSuccessfulTime") {
        sentence.say("CronJob ran successfully");
    } else if !ended.is_empty() {
        sentence.say(format!("{} ended", words::list(&ended, 3)));
    } else {
        return;
    }
    sentence.tell(update, &["status"]);
}
