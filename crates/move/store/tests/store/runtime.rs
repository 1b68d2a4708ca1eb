// SPDX-License-Identifier: GPL-2.0-or-later
//! A store under a runtime, as a depot uses it: what blocks runs in `spawn_blocking`, promises and readers are polled.

use crate::{
    harness::{PLENTY, at, content, id, key, session},
    sim_disk::SimDisk,
};
use longhaul_store::{Job, Read, Store};
use std::{future::poll_fn, sync::Arc};
use tokio::{runtime::Builder, task::spawn_blocking};

const SESSIONS: u64 = 300;
const LENGTH: u64 = 100_000;

/// Sends one session, and receives it while it arrives.
async fn send_and_receive(store: Arc<Store>, number: u64) {
    let id = id(number);
    let creator = Arc::clone(&store);
    let create = move || creator.create(&session(id, LENGTH), at(0));
    let mut writer = spawn_blocking(create).await.unwrap().unwrap();
    assert_eq!(writer.promise().await.unwrap(), 0);
    let mut reader = store.reader(id, &key(2), at(0)).unwrap();
    let receiver = tokio::spawn(async move {
        let mut received = Vec::new();
        loop {
            let offset = received.len() as u64;
            match reader.read(offset).unwrap() {
                Read::Bytes(bytes) => received.extend_from_slice(bytes),
                Read::End => return received,
                Read::NotYet => poll_fn(|cx| reader.poll_past(offset, cx)).await,
            }
        }
    });
    for part in 0..4 {
        let bytes = content(id, part * LENGTH / 4, LENGTH / 4);
        writer =
            spawn_blocking(move || writer.append(&bytes).map(|()| writer)).await.unwrap().unwrap();
        assert_eq!(writer.promise().await.unwrap(), (part + 1) * LENGTH / 4);
    }
    writer.complete().await.unwrap();
    assert_eq!(receiver.await.unwrap(), content(id, 0, LENGTH));
}

#[test]
fn hundreds_of_promises_wait_with_two_blocking_threads() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let disk = SimDisk::new(1);
    runtime.block_on(async {
        let handle = tokio::runtime::Handle::current();
        let runner = move |job: Job| drop(handle.spawn_blocking(job));
        let opened = Store::open(Arc::new(disk.clone()), PLENTY, runner, at(0));
        let store = Arc::new(opened.unwrap().0);
        let tasks: Vec<_> = (0..SESSIONS)
            .map(|number| tokio::spawn(send_and_receive(Arc::clone(&store), number)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        spawn_blocking(move || store.close()).await.unwrap();
    });
}
