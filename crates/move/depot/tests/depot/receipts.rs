// SPDX-License-Identifier: GPL-2.0-or-later
//! What limited a transfer, as depots tell it to operators, and to the client that asks by its token.

use crate::common::{
    client::{connect, exchange, status},
    noise,
    process::Daemon,
    scripted::{Scripted, read_head},
};
use longhaul_depot::status::{Cause, Side};
use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::Duration,
};
use testkit::until;

const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";
const LENGTH: usize = 40 << 20;

/// An origin that sends much as fast as it can.
fn fast() -> Scripted {
    let body = vec![b'x'; LENGTH];
    Scripted::new(move |mut stream, _| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // The client may have gone.
        let _ = stream.write_all(&body);
    })
}

/// An origin that sends 20 pieces, 100 ms apart.
fn slow() -> Scripted {
    Scripted::new(|mut stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n").unwrap();
        for _ in 0..20 {
            stream.write_all(&noise(5, 100_000)).unwrap();
            thread::sleep(Duration::from_millis(100));
        }
    })
}

/// Asks for a route, with the token or other fields.
fn ask(depot: &Daemon, route: &str, fields: &str) -> TcpStream {
    let mut client = connect(depot.address);
    let text = format!("GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n{fields}\r\n");
    client.write_all(text.as_bytes()).unwrap();
    client
}

/// Reads a body for two seconds and more, some of it at a time.
fn read_slowly(client: &mut TcpStream) {
    let mut piece = vec![0; 1 << 20];
    for _ in 0..25 {
        client.read_exact(&mut piece).unwrap();
        thread::sleep(Duration::from_millis(100));
    }
}

fn receipt(depot: &Daemon, token: &str) -> (u16, serde_json::Value, String) {
    let text = format!("GET /lh1/receipt/{token} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n");
    let (head, body, _) = exchange(depot.address, text.as_bytes());
    let text = String::from_utf8(body).unwrap();
    (status(&head), serde_json::from_str(&text).unwrap_or_default(), text)
}

/// Of one depot in an answer, how long it was limited by a cause on a side, in seconds.
fn seconds(receipt: &serde_json::Value, side: &str, cause: &str) -> f64 {
    let rows = receipt["receipt"]["rows"].as_array().expect("a receipt");
    rows.iter().map(|row| row[side][cause].as_f64().unwrap_or(0.0)).sum::<f64>() / 1e6
}

#[test]
fn slow_client_and_slow_origin_are_told_apart() {
    let depot = Daemon::depot("admin.listen = \"127.0.0.1:0\"");
    let (fast, slow) = (fast(), slow());
    let mut client = ask(&depot, &fast.route("-", "/fast"), "");
    read_head(&client).unwrap();
    read_slowly(&mut client);
    let transfers = depot.status().transfers;
    let limit = transfers[0].limited_by.expect("it lasts");
    assert_eq!((limit.side, limit.cause), (Side::Client, Cause::Receiver), "{transfers:?}");
    let sums = transfers[0].limits_us.expect("it lasts");
    assert!(sums.client.seconds(Cause::Receiver) > sums.upstream.total_s(), "{sums:?}");
    drop(client);
    depot.await_log(&["client gone", "limited_by=\"client receiver\""]);

    let mut client = ask(&depot, &slow.route("-", "/slow"), "");
    read_head(&client).unwrap();
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 2_000_000);
    depot.await_log(&["complete", "/slow", "limited_by=\"upstream other hop\""]);
}

#[test]
fn chain_tells_its_receipts_by_the_token_alone() {
    let (near, far) = (Daemon::depot("id = \"near\""), Daemon::depot("id = \"far\""));
    let origin = fast();
    let route = origin.route(&far.authority(), "/f");
    let mut client = ask(&near, &route, &format!("Longhaul-Receipt: {TOKEN}\r\n"));
    let head = read_head(&client).unwrap();
    assert!(head.to_lowercase().contains("longhaul-receipt: kept\r\n"), "{head}");
    read_slowly(&mut client);
    // While it lasts, and afterwards.
    for is_over in [false, true] {
        if is_over {
            client.read_to_end(&mut Vec::new()).unwrap();
            near.await_log(&["complete", "limited_by"]);
        }
        let (status, receipts, text) = receipt(&near, TOKEN);
        assert_eq!(status, 200, "{text}");
        let names: Vec<_> = [0, 1].map(|at| receipts[at]["depot"].as_str().unwrap()).into();
        assert_eq!((names, receipts.as_array().unwrap().len()), (vec!["near", "far"], 2));
        assert_eq!([0, 1].map(|at| receipts[at]["next_is_depot"] == true), [true, false]);
        // The depot behind waits for the one before it, which waits for the client.
        for at in [0, 1] {
            let full = seconds(&receipts[at], "client", "receiver");
            assert!(full > seconds(&receipts[at], "upstream", "other_hop"), "{at}: {text}");
        }
        assert!(!text.contains("127.0.0.1"), "{text}");
    }
    let head = origin.next_head();
    assert!(!head.to_lowercase().contains("receipt"), "the origin is told nothing: {head}");
    for depot in [&near, &far] {
        assert!(!depot.log_text().contains(TOKEN), "the log would open it:\n{}", depot.log_text());
    }
}

#[test]
fn receipts_need_their_token_and_are_told_a_few_times() {
    let depot = Daemon::depot("");
    let origin = Scripted::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let route = origin.route("-", "/f");
    for (fields, kept) in [
        ("", false),
        ("Longhaul-Receipt: 1\r\n", false),
        (&format!("Longhaul-Receipt: {TOKEN}\r\n"), true),
    ] {
        let client = ask(&depot, &route, fields);
        let head = read_head(&client).unwrap();
        assert_eq!(head.to_lowercase().contains("longhaul-receipt: kept"), kept, "{head}");
    }
    for wrong in ["", "1", &TOKEN.replace('0', "1"), &TOKEN.to_uppercase(), "../../status"] {
        assert_eq!(receipt(&depot, wrong).0, 404, "{wrong}");
    }
    let mut told = 0;
    until("it is told no more", || {
        let status = receipt(&depot, TOKEN).0;
        told += usize::from(status == 200);
        status == 404
    });
    assert_eq!(told, 16);
}
