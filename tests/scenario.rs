//! `make recording`: plays the demo's story on a real control plane and records it, by the real `kubediff record`, into
//! the file that `kubediff demo` plays. Takes the path of that file.
#![allow(unreachable_pub, reason = "nothing of a program is reachable from outside")]

#[allow(dead_code, reason = "the scenario needs the control plane alone")]
mod harness;
#[path = "scenario/kubelet.rs"]
mod kubelet;
#[path = "scenario/stage.rs"]
mod stage;
#[path = "scenario/story.rs"]
mod story;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use kubediff::cluster::source::recording::{Recording, Writer};

use self::{kubelet::Kubelet, stage::Stage};
use harness::{PATIENCE, guard::Daemon, poll, say};

/// The most that zstd can do: it is compressed once.
const LEVEL: i32 = 22;

#[tokio::main]
async fn main() {
    let wanted = PathBuf::from(std::env::args_os().nth(1).expect("the file to write"));
    let stage = Stage::build().await;
    let kubelet = Kubelet::default();
    kubelet.join(&stage).await;
    tokio::select! {
        () = kubelet.run(&stage) => unreachable!("it runs until it is dropped"),
        () = play(&stage, &kubelet, &wanted) => {}
    }
}

async fn play(stage: &Stage, kubelet: &Kubelet, wanted: &Path) {
    story::set_up(stage).await;
    let raw = stage.cluster.dir().join("raw.zst");
    // Built before this example, beside its folder.
    let me = std::env::current_exe().expect("a path");
    let kubediff = me.parent().and_then(Path::parent).expect("target/debug/examples").join("kubediff");
    let kubeconfig = stage.cluster.kubeconfig().to_string_lossy().into_owned();
    let file = raw.to_string_lossy().into_owned();
    let args = [
        "record",
        "--kubeconfig",
        &kubeconfig,
        "-o",
        &file,
        "--for",
        "10m",
        "--exclude",
        "metrics.k8s.io/*",
        "--exclude",
        "flowcontrol.apiserver.k8s.io/*",
    ];
    let mut recorder = Daemon::start("kubediff", stage.cluster.dir(), &kubediff, args).expect("kubediff is built");
    poll(PATIENCE, "kubediff to record", async || recorder.log_tail().contains(" recording ").then_some(())).await;
    story::play(stage, kubelet).await;
    recorder.signal("INT");
    poll(PATIENCE, "the recording", async || recorder.exited()).await;
    say(recorder.log_tail());

    let text = zstd::stream::decode_all(std::fs::read(&raw).expect("the recording").as_slice()).expect("it is whole");
    let recording = Recording::read(text.clone()).expect("a recording");
    let began = recording.began.expect("it says when it began");
    let mut marks = Writer::new(Vec::new(), "").expect("memory");
    for (at, mark) in stage.marks() {
        let at = Duration::try_from(at.duration_since(began)).unwrap_or_default();
        marks.mark(at, &mark).expect("memory");
    }
    let marks = marks.into_inner();
    let first_line = marks.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let text = [&text, &marks[first_line..]].concat();
    let packed = zstd::bulk::Compressor::new(LEVEL)
        .and_then(|mut packer| {
            packer.window_log(24)?;
            packer.include_checksum(true)?;
            packer.compress(&text)
        })
        .expect("it compresses");
    std::fs::write(wanted, &packed).expect("a writable file");
    say(format_args!(
        "{}: {} objects, {} changes in {} s, {} KiB of {} KiB",
        wanted.display(),
        recording.objects(),
        recording.changes(),
        recording.length().as_secs(),
        packed.len() / 1024,
        text.len() / 1024
    ));
}
