// SPDX-License-Identifier: GPL-2.0-or-later
//! A transfer of this host as the crate `model` takes it: what settings, device, route and a measured path leave of the
//! target.
//!
//! The peer has no limit of its own unless the path was measured. What the model has no form for is not here.

use crate::{
    Target,
    facts::{Facts, KernelVersion, Route},
    finding::Direction,
};
use model::{
    buffers,
    transfer::{Transfer, mean_rate},
};
use units::{Bytes, Duration, Probability, Rate};

/// How long a predicted transfer takes, its start included.
pub const DURATION: Duration = Duration::from_secs(10);

/// After so many round trips, a rate hardly depends on its start. More of them take time to follow.
const ENOUGH_ROUND_TRIPS: u64 = 2000;
/// The largest window without window scaling (RFC 7323).
const UNSCALED: Bytes = Bytes::new(65_535);
/// The largest shift of a window (RFC 7323).
const MAX_SCALE: u32 = 14;
/// The largest window of a connection, whatever its buffers.
pub const LARGEST_WINDOW: Bytes = Bytes::new(65_535 << MAX_SCALE);
/// The window that the kernel leaves a socket while it is short of memory (`tcp_adjust_rcv_ssthresh`).
const SEGMENTS_IN_PRESSURE: u64 = 4;
/// The first window (RFC 6928).
const INITIAL_WINDOW: u64 = 10;
/// Headers of IPv4 and TCP, and of the timestamps option.
const HEADERS: u64 = 40;
const TIMESTAMPS: u64 = 12;
/// The largest packet of most paths.
const USUAL_MTU: u64 = 1500;
/// A packet that passes paths with tunnels (the least MTU of IPv6).
pub const PASSES: Bytes = Bytes::new(1280);
/// The first kernel that measures which share of a buffer is payload, in place of `tcp_adv_win_scale`.
const MEASURES_SHARE: KernelVersion = KernelVersion::new(6, 6, 0);

/// The mean rate of a transfer of [`DURATION`], or 2000 round trips if that is shorter, under these facts. `direction` is a single one.
///
/// # Errors
/// No closed form is for it; the text says why.
pub fn predict(facts: &Facts, target: &Target, direction: Direction) -> Result<Rate, String> {
    if is_black_hole(facts, direction) {
        return Ok(Rate::bits_per_second(0));
    }
    mean_rate(&transfer(facts, target, direction))
}

/// The transfer as the model takes it. `direction` is a single one.
pub fn transfer<'f>(facts: &'f Facts, target: &Target, direction: Direction) -> Transfer<'f> {
    let (payload, on_link) = segment(facts, direction);
    let route = facts.host.route.as_ref();
    let sends = direction == Direction::Send;
    let number = |word: &str| route.filter(|_| sends).and_then(|route| route.number(word));
    let loss = measured(facts, direction).1.and_then(Probability::new);
    Transfer {
        link: link(facts, target, direction),
        round_trip: target.round_trip,
        loss: loss.unwrap_or(target.loss),
        congestion: congestion(facts, direction),
        payload,
        on_link,
        window: window(facts, payload, direction),
        initial_window: u32::try_from(number("initcwnd").unwrap_or(INITIAL_WINDOW)).unwrap_or(1),
        ssthresh: facts.host.remembered_ssthresh.filter(|_| sends && remembers(facts)),
        lasts: DURATION.min(target.round_trip.saturating_mul(ENOUGH_ROUND_TRIPS)),
    }
}

/// Rate and loss of the path in a direction, as far as they were measured.
fn measured(facts: &Facts, direction: Direction) -> (Option<u64>, Option<f64>) {
    if direction == Direction::Receive {
        facts.path.as_ref().map_or((None, None), |path| (path.rate_bps, path.loss))
    } else {
        facts.sent.as_ref().map_or((None, None), |sent| (sent.rate_bps, sent.loss))
    }
}

/// Bits of acknowledgements in the other direction for each bit of packets with data: one for every second segment (RFC 9293,
/// section 3.8.6.3).
pub fn acknowledged_share(facts: &Facts, direction: Direction) -> f64 {
    const SEGMENTS: u64 = 2;
    if facts.thins_acknowledgements {
        return 0.0;
    }
    let acknowledgement = HEADERS + timestamps(facts);
    acknowledgement as f64 / (SEGMENTS * segment(facts, direction).1.get()) as f64
}

/// The rate whose acknowledgements fill the other direction.
pub fn acknowledged_rate(facts: &Facts, target: &Target, direction: Direction) -> Rate {
    let bps = target.rate_of(direction.other()).bps() as f64 / acknowledged_share(facts, direction);
    // Without any, nothing limits it.
    Rate::bits_per_second(bps as u64)
}

fn timestamps(facts: &Facts) -> u64 {
    if facts.host.number("net.ipv4.tcp_timestamps") == Some(0) { 0 } else { TIMESTAMPS }
}

/// Whether new connections begin with the threshold that the kernel remembers of earlier ones. From Linux 5.6 on that has
/// a setting of its own, by which it does not.
pub fn remembers(facts: &Facts) -> bool {
    let forgets = facts.host.number("net.ipv4.tcp_no_ssthresh_metrics_save");
    forgets.or_else(|| facts.host.number("net.ipv4.tcp_no_metrics_save")) == Some(0)
}

/// Whether packets of the usual size vanish on the path, and this host asks for them all the same.
fn is_black_hole(facts: &Facts, direction: Direction) -> bool {
    let vanish = facts.path.as_ref().is_some_and(|path| path.small_segments_pass == Some(true));
    vanish && direction == Direction::Receive && segment(facts, direction).1 > PASSES
}

/// The congestion control of what this host sends; of what it receives, the usual one.
pub fn congestion(facts: &Facts, direction: Direction) -> &str {
    let usual = "cubic";
    if direction == Direction::Receive {
        return usual;
    }
    let of_route = facts.host.route.as_ref().and_then(|route| route.value("congctl"));
    let setting = facts.host.settings.get("net.ipv4.tcp_congestion_control");
    of_route.or(setting.map(String::as_str)).unwrap_or(usual)
}

/// Payload of a segment, and its packet.
pub fn segment(facts: &Facts, direction: Direction) -> (Bytes, Bytes) {
    let route = facts.host.route.as_ref();
    let device = facts.host.device.as_ref().filter(|device| device.is_ethernet);
    let on_route = |word| route.and_then(|route: &Route| route.number(word));
    let mut packet = device.map_or(USUAL_MTU, |device| u64::from(device.mtu)).min(USUAL_MTU);
    packet = packet.min(on_route("mtu").unwrap_or(packet));
    // What this host announces limits what comes.
    if let (Direction::Receive, Some(most)) = (direction, on_route("advmss")) {
        packet = packet.min(most + HEADERS);
    }
    let measured = facts.path.as_ref().and_then(|path| path.packet_bytes);
    packet = packet.min(measured.map_or(packet, u64::from)).max(HEADERS + TIMESTAMPS + 1);
    (Bytes::new(packet - HEADERS - timestamps(facts)), Bytes::new(packet))
}

/// The slowest link that is known.
fn link(facts: &Facts, target: &Target, direction: Direction) -> Rate {
    let device = facts.host.device.as_ref();
    let line = device.and_then(|device| device.line_rate_bps);
    // A discipline is for what is sent.
    let shaped = device.filter(|_| direction == Direction::Send);
    let shaped = shaped.and_then(|device| device.discipline.rate_bps());
    let measured = measured(facts, direction).0;
    let rates = [line, shaped, measured].into_iter().flatten().map(Rate::bits_per_second);
    let wanted = target.rate_of(direction);
    let acknowledged = acknowledged_rate(facts, target, direction);
    rates.min().unwrap_or(wanted).min(wanted).min(acknowledged)
}

/// The share of a receive buffer that is window.
pub fn receive_share(facts: &Facts) -> f64 {
    let measures = facts.host.kernel.is_none_or(|kernel| kernel >= MEASURES_SHARE);
    match facts.host.number("net.ipv4.tcp_adv_win_scale") {
        Some(scale) if !measures => old_share(scale),
        _ => buffers::AUTOTUNED_SHARE,
    }
}

/// Of kernels before 6.6 (`tcp_win_from_space`).
fn old_share(scale: i64) -> f64 {
    let scale = i32::try_from(scale.clamp(-31, 31)).unwrap_or(1);
    if scale <= 0 { 2_f64.powi(scale) } else { 1.0 - 2_f64.powi(-scale) }
}

/// The receive buffer that the kernel stops at.
pub fn receive_buffer(facts: &Facts) -> Option<Bytes> {
    let [_, first, most] = facts.host.three("net.ipv4.tcp_rmem")?;
    let is_fixed = facts.host.number("net.ipv4.tcp_moderate_rcvbuf") == Some(0);
    Some(Bytes::new(if is_fixed { first.min(most) } else { most }))
}

/// The window that the route allows: the kernel chooses the scale of windows by its value (`tcp_select_initial_window`), and from
/// then on announces up to the most that fits the scale, which may be nearly twice as much.
pub fn route_window(facts: &Facts) -> Option<Bytes> {
    let value = facts.host.route.as_ref()?.number("window").filter(|value| *value > 0)?;
    let scale = value.ilog2().saturating_sub(UNSCALED.get().ilog2());
    Some(Bytes::new(UNSCALED.get() << scale.min(MAX_SCALE)))
}

/// The congestion window that the route allows, in segments. The kernel takes it from what it remembers of the peer
/// (`tcp_init_metrics`), so it is none where nothing is remembered.
pub fn locked_window(facts: &Facts) -> Option<u64> {
    let route = facts.host.route.as_ref().filter(|route| route.is_locked("cwnd"))?;
    let forgets = facts.host.number("net.ipv4.tcp_no_metrics_save").is_some_and(|it| it != 0);
    route.number("cwnd").filter(|value| *value > 0 && !forgets)
}

/// The window that this host allows, by all its limits.
pub fn window(facts: &Facts, payload: Bytes, direction: Direction) -> Option<Bytes> {
    let host = &facts.host;
    let segments = |count: u64| Bytes::new(payload.get().saturating_mul(count));
    let mut limits = vec![LARGEST_WINDOW];
    if host.number("net.ipv4.tcp_window_scaling") == Some(0) {
        limits.push(UNSCALED);
    }
    if let Some(path) = &facts.path {
        limits.extend(path.is_unscaled.then_some(UNSCALED));
        limits.extend(path.peer_window_bytes.map(Bytes::new));
    }
    if let Some(memory) = host.memory {
        let pressed = memory.held_bytes >= memory.begins_bytes;
        let left = segments(SEGMENTS_IN_PRESSURE);
        limits.push(if pressed { left } else { Bytes::new(memory.begins_bytes) });
    }
    match direction {
        Direction::Receive => {
            limits.extend(receive_buffer(facts).map(|buffer| buffer.scale(receive_share(facts))));
            limits.extend(route_window(facts));
            let set = facts.sockets.iter().filter(|socket| socket.sets_receive_buffer);
            let share = receive_share(facts);
            limits.extend(set.map(|socket| Bytes::new(socket.receive_buffer_bytes).scale(share)));
        }
        Direction::Send | Direction::Both => {
            let most = host.three("net.ipv4.tcp_wmem").map(|[.., most]| Bytes::new(most));
            limits.extend(most.map(buffers::send_window));
            let set = facts.sockets.iter().filter(|socket| socket.sets_send_buffer);
            limits.extend(
                set.map(|socket| buffers::send_window(Bytes::new(socket.send_buffer_bytes))),
            );
            limits.extend(locked_window(facts).map(segments));
        }
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        "1gbit@100ms".parse().unwrap()
    }

    fn with(settings: &[(&str, &str)]) -> Facts {
        let mut facts = Facts::default();
        for (key, value) in settings {
            facts.host.settings.insert(format!("net.ipv4.{key}"), (*value).to_owned());
        }
        facts
    }

    fn mbps(facts: &Facts, direction: Direction) -> f64 {
        predict(facts, &target(), direction).unwrap().bps() as f64 / 1e6
    }

    /// The example: 16 MB are 0.67 Gb/s at 100 ms, where half of a buffer is window. Without a start, so over more
    /// than ten seconds.
    #[test]
    fn sixteen_megabytes_are_two_thirds_of_a_gigabit() {
        let mut facts = with(&[("tcp_rmem", "4096 131072 16777216"), ("tcp_adv_win_scale", "1")]);
        facts.host.kernel = Some(KernelVersion::new(6, 1, 0));
        let window = window(&facts, Bytes::new(1448), Direction::Receive).unwrap();
        let gbps = window.get() as f64 * 8.0 / 0.1 / 1e9;
        assert!((gbps - 0.67).abs() < 0.005, "{gbps}");
        let predicted = mbps(&facts, Direction::Receive);
        assert!((500.0..671.0).contains(&predicted), "{predicted}");
        // A kernel that measures the share has more of the same buffer.
        facts.host.kernel = Some(KernelVersion::new(6, 18, 0));
        assert!(mbps(&facts, Direction::Receive) > predicted * 1.2);
    }

    /// As seen on Linux 6.18: 131 072 let 262 140 bytes through, 98 304 half of that.
    #[test]
    fn window_of_a_route_is_rounded_up_by_its_scale() {
        for (value, window) in [
            (131_072, 262_140),
            (98_304, 131_070),
            (65_535, 65_535),
            (1000, 65_535),
            (1_u64 << 40, 65_535 << 14),
        ] {
            let mut facts = Facts::default();
            facts.host.route = Some(Route { text: format!("10.0.0.0/8 dev e window {value}") });
            assert_eq!(route_window(&facts), Some(Bytes::new(window)), "{value}");
        }
    }

    #[test]
    fn locked_window_needs_what_is_remembered_of_peers() {
        let locked = "10.0.0.0/8 dev e cwnd lock 50".to_owned();
        let mut facts = with(&[("tcp_no_metrics_save", "0")]);
        facts.host.route = Some(Route { text: locked });
        assert_eq!(locked_window(&facts), Some(50));
        facts.host.settings.insert("net.ipv4.tcp_no_metrics_save".to_owned(), "1".to_owned());
        assert_eq!(locked_window(&facts), None);
    }

    /// `tcp_win_from_space` of Linux 6.1, by its shifts.
    #[test]
    fn share_of_old_kernels_follows_their_shifts() {
        for scale in -3..=3_i64 {
            let space = 1_u64 << 20;
            let window = if scale <= 0 { space >> -scale } else { space - (space >> scale) };
            assert!((old_share(scale) - window as f64 / space as f64).abs() < 1e-9, "{scale}");
        }
        assert!(old_share(i64::MIN) > 0.0 && old_share(i64::MAX) <= 1.0);
    }

    #[test]
    fn each_setting_limits_its_own_direction() {
        let receive = with(&[("tcp_rmem", "4096 131072 1048576")]);
        assert!(mbps(&receive, Direction::Receive) < 60.0);
        assert!(mbps(&receive, Direction::Send) > 600.0);
        let send = with(&[("tcp_wmem", "4096 16384 1048576")]);
        assert!(mbps(&send, Direction::Send) < 60.0);
        assert!(mbps(&send, Direction::Receive) > 600.0);
        let both = with(&[("tcp_window_scaling", "0")]);
        for direction in [Direction::Send, Direction::Receive] {
            // 65535 bytes a round trip are 5.24 Mb/s.
            assert!((4.9..5.3).contains(&mbps(&both, direction)));
        }
        let fixed = with(&[("tcp_rmem", "4096 131072 67108864"), ("tcp_moderate_rcvbuf", "0")]);
        assert!((6.5..7.1).contains(&mbps(&fixed, Direction::Receive)), "87 KB a round trip");
    }

    /// 1 Gb/s of packets of 1500 bytes is 41 667 acknowledgements of 52 bytes a second, 17.3 Mb/s.
    #[test]
    fn acknowledgements_limit_what_is_received() {
        let share = acknowledged_share(&Facts::default(), Direction::Receive);
        assert!((share * 1e9 - 1e9 / (1500.0 * 8.0) / 2.0 * 52.0 * 8.0).abs() < 1.0);
        let narrow: Target = "1gbit/5mbit@20ms".parse().unwrap();
        let received =
            |facts: &Facts| predict(facts, &narrow, Direction::Receive).unwrap().bps() as f64 / 1e6;
        let by_acknowledgements = 5.0 / share * 1448.0 / 1500.0;
        assert!((received(&Facts::default()) / by_acknowledgements - 1.0).abs() < 0.1);
        let thinned = Facts { thins_acknowledgements: true, ..Facts::default() };
        assert!(received(&thinned) > 800.0);
    }

    #[test]
    fn route_and_memory_limit_the_window() {
        let mut facts = Facts::default();
        facts.host.route =
            Some(Route { text: "default dev v0 window 65536 cwnd lock 20".to_owned() });
        let at = |facts: &Facts, direction| window(facts, Bytes::new(1448), direction);
        assert_eq!(at(&facts, Direction::Receive), Some(Bytes::new(131_070)));
        assert_eq!(at(&facts, Direction::Send), Some(Bytes::new(20 * 1448)));
        facts.host.memory = Some(crate::facts::Memory { held_bytes: 10, begins_bytes: 10 });
        assert_eq!(at(&facts, Direction::Receive), Some(Bytes::new(4 * 1448)));
        assert_eq!(at(&Facts::default(), Direction::Receive), Some(LARGEST_WINDOW));
    }

    #[test]
    fn segments_follow_device_route_and_options() {
        let mut facts = with(&[("tcp_timestamps", "0")]);
        let sizes = |facts: &Facts, direction| {
            let (payload, on_link) = segment(facts, direction);
            (payload.get(), on_link.get())
        };
        assert_eq!(sizes(&facts, Direction::Send), (1460, 1500));
        facts.host.route = Some(Route { text: "default dev v0 mtu 1400 advmss 536".to_owned() });
        assert_eq!(sizes(&facts, Direction::Send), (1360, 1400));
        assert_eq!(sizes(&facts, Direction::Receive), (536, 576));
        facts.host.route = Some(Route { text: "default dev v0 mtu 0".to_owned() });
        assert!(sizes(&facts, Direction::Send).0 > 0, "nonsense does not panic");
    }
}
