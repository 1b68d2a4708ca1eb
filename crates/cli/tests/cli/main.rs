// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line as a person would call it, also wrongly, with real programs on an emulated
//! network. Takes root.

mod add_your_own;
mod agent;
mod agent_access;
mod cc;
mod cc_file;
mod chain;
mod closed_output;
mod common;
mod controls;
mod demo;
mod depot;
mod depot_check;
mod depot_control;
mod depot_paced;
mod documented_commands;
#[path = "../../../spine/scenario/tests/draft/mod.rs"]
mod draft;
mod emulated;
mod export;
mod failover;
mod figure;
mod figure_09;
mod figures_guide;
mod gap_packets;
mod gateway;
mod get;
#[allow(dead_code, reason = "tests of the client use all of it")]
#[path = "../../../move/transfer/tests/transfer/server.rs"]
mod http_server;
mod intercept;
mod interop;
mod lab;
mod lacking;
mod misspelled;
mod monitor;
mod one_destination;
mod operator;
mod origin;
mod overlay;
mod pace;
mod paced;
mod package;
mod portal;
mod printing;
mod programs;
mod proxy;
mod put;
mod quick_starts;
mod record_guide;
mod run;
mod run_faults;
mod run_stats;
mod run_strict;
mod send;
mod send_directory;
mod send_encrypted;
mod send_wan;
mod session;
mod short;
mod sim;
mod ticket;
mod wan;
