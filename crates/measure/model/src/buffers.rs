// SPDX-License-Identifier: GPL-2.0-or-later
//! The windows that buffers allow.
//!
//! A receive window is the part of the receive buffer that payload may fill; the rest is for what the kernel keeps of each
//! packet. From Linux 6.6 on, a connection begins with a half of its buffer (a quarter before 6.10) and then measures that share
//! in what it receives: payload by memory (`scaling_ratio`, `skb->len / skb->truesize`). Full packets of 1500 bytes have
//! two thirds: 0.66 where a cloud's network card receives them ("tcp: increase the default TCP scaling ratio"). Frames of several
//! segments have more: 0.66 to 0.79 of the emulator's, by its rate, and 0.86 of those that a host sends to itself (the log of
//! aa251c84636c). Two thirds are taken for all.
//! Kernels before take a fixed share (`tcp_adv_win_scale`), a half by default. A program that found the send buffer full is told to
//! go on when a third of it is free (`sk_stream_is_writeable`), so two thirds are out.

use units::Bytes;

/// The share of an autotuned buffer that is window.
pub const AUTOTUNED_SHARE: f64 = 2.0 / 3.0;

/// The window that an autotuned receive buffer allows.
pub fn receive_window(buffer: Bytes) -> Bytes {
    two_thirds(buffer)
}

/// What a send buffer lets out before it is acknowledged.
pub fn send_window(buffer: Bytes) -> Bytes {
    two_thirds(buffer)
}

fn two_thirds(buffer: Bytes) -> Bytes {
    Bytes::new(buffer.get() / 3 * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_thirds_of_a_buffer_are_window() {
        assert_eq!(receive_window(Bytes::new(3001)), Bytes::new(2000));
        assert_eq!(send_window(Bytes::new(u64::MAX)).get(), u64::MAX / 3 * 2);
        assert!((AUTOTUNED_SHARE - 2.0 / 3.0).abs() < 1e-12);
    }
}
