# SPDX-License-Identifier: GPL-2.0-or-later
#
# A dumbbell in ns-2.35: N senders, one DropTail bottleneck, N receivers, one-way
# TCP agents with an endless FTP. One JSON object goes to standard output, on the
# one line that begins with "{": TCP/Linux also prints a line for each select_ca.
#
#   ns dumbbell.tcl -senders 4 -agent cubic -bottleneck_bps 1e8 -rtt_ms 20 -buffer_packets 167
#
# Nothing is traced: counters of the agents are read at half time and at the end,
# so that a timed run costs what the protocols cost.

set usage {
  -senders N              flows, one host each                               (1)
  -agent NAME             sack1, or a congestion control of TCP/Linux: reno cubic
                          bic highspeed htcp scalable ...                    (sack1)
  -bottleneck_bps R       rate of the shared link, bit/s                     (1e9)
  -access_bps R           rate of each host's link, bit/s; 0: 10 x bottleneck (0)
  -rtt_ms T               round trip of propagation alone, ms                (20)
  -access_delay_ms T      one-way delay of each host's link, both sides, ms  (0.1)
  -buffer_packets N       limit_ of the bottleneck's queue, packets          (1 BDP)
  -access_buffer_packets N limit_ of all other queues, packets               (1000000)
  -ip_packet_bytes N      size of a full data packet with its headers, bytes (1500)
  -start_s LIST           start of each flow, s, in braces or commas; the last
                          one holds for the flows that are not named         (0)
  -duration_s T           simulated time, s                                  (10)
  -window_packets N       receiver's window; never meant to limit, packets   (1000000)
  -ssthresh_packets N     initial slow-start threshold, packets; 0: the window (0)
  -cwnd_file PATH         writes time, flow, cwnd, ssthresh every -cwnd_step_s
  -cwnd_step_s T                                                             (0.1)
  -trim_headers 0|1       packets carry only the headers in use, not all that
                          ns-2 knows: what a user who tunes ns-2 does        (0)
  -cbr_bps R              datagrams at this rate over the bottleneck, each way    (0)
  -counters 0|1           also counts packets and bytes at the bottleneck's
                          entry, which slows the run                         (0)
}

array set opt {
    senders 1  agent sack1  bottleneck_bps 1e9  access_bps 0  rtt_ms 20
    access_delay_ms 0.1  buffer_packets 0  access_buffer_packets 1000000
    ip_packet_bytes 1500  start_s 0  duration_s 10  window_packets 1000000
    ssthresh_packets 0  cbr_bps 0  cwnd_file ""  cwnd_step_s 0.1  counters 0  trim_headers 0
}
foreach {key value} $argv {
    set name [string range $key 1 end]
    if {[string index $key 0] ne "-" || ![info exists opt($name)] || $value eq ""} {
        puts stderr "dumbbell.tcl: unknown option or missing value: $key $value\noptions:$usage"
        exit 2
    }
    set opt($name) $value
}

set known {reno naive_reno highspeed bic htcp scalable cubic westwood vegas hybla illinois yeah
    veno compound lp}
# ns-2 itself only prints a line and goes on with its own Reno.
if {$opt(agent) ne "sack1" && [lsearch -exact $known $opt(agent)] < 0} {
    puts stderr "dumbbell.tcl: -agent $opt(agent): ns-2.35 has sack1 and $known"
    exit 2
}

# Rounds to a whole number of packets, at least two.
proc packets {x} { set n [expr {int(floor($x + 0.5))}]; return [expr {$n < 2 ? 2 : $n}] }

if {$opt(access_bps) == 0} { set opt(access_bps) [expr {10.0 * $opt(bottleneck_bps)}] }
set bdp_packets [expr {$opt(bottleneck_bps) * $opt(rtt_ms) / 1e3 / 8 / $opt(ip_packet_bytes)}]
if {$opt(buffer_packets) == 0} { set opt(buffer_packets) [packets $bdp_packets] }
set core_delay_ms [expr {$opt(rtt_ms) / 2.0 - 2.0 * $opt(access_delay_ms)}]
if {$core_delay_ms < 0} {
    puts stderr "dumbbell.tcl: -rtt_ms $opt(rtt_ms) is less than four -access_delay_ms"
    exit 2
}
set linux [expr {$opt(agent) ne "sack1"}]
# What the headers take: TCP and IP 40 bytes, and 12 for time stamps as Linux pads
# them (ns-2 counts 10 unless told). packetSize_ is payload.
set header_bytes [expr {$linux ? 52 : 40}]
set payload_bytes [expr {$opt(ip_packet_bytes) - $header_bytes}]

Agent/TCP set window_ $opt(window_packets)
Agent/TCP set packetSize_ $payload_bytes
Agent/TCP set ts_option_size_ 12
Agent/TCP set timestamps_ [expr {$linux ? "true" : "false"}]
Agent/TCPSink set ts_echo_rfc1323_ true

if {$opt(trim_headers)} {
    remove-all-packet-headers
    add-packet-header IP TCP Flags RTP
}
set ns [new Simulator]
set left [$ns node]
set right [$ns node]

# A link whose both queues are `limit` packets long.
proc join {a b bps delay_ms limit} {
    global ns
    $ns duplex-link $a $b $bps ${delay_ms}ms DropTail
    $ns queue-limit $a $b $limit
    $ns queue-limit $b $a $limit
}
join $left $right $opt(bottleneck_bps) $core_delay_ms $opt(access_buffer_packets)
$ns queue-limit $left $right $opt(buffer_packets)

set start_list [split [string trim $opt(start_s)] ", "]
for {set i 0} {$i < $opt(senders)} {incr i} {
    set from [$ns node]
    set to [$ns node]
    join $from $left $opt(access_bps) $opt(access_delay_ms) $opt(access_buffer_packets)
    join $right $to $opt(access_bps) $opt(access_delay_ms) $opt(access_buffer_packets)
    set tcp($i) [new Agent/TCP/[expr {$linux ? "Linux" : "Sack1"}]]
    set sink [new Agent/TCPSink/Sack1]
    $ns attach-agent $from $tcp($i)
    $ns attach-agent $to $sink
    $ns connect $tcp($i) $sink
    $tcp($i) set fid_ $i
    # Not before: `$ns run` resets every agent, and a reset sets ssthresh_ to window_.
    if {$opt(ssthresh_packets) > 0} { $ns at 0 "$tcp($i) set ssthresh_ $opt(ssthresh_packets)" }
    if {$linux} { $ns at 0 "$tcp($i) select_ca $opt(agent)" }
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp($i)
    set named [expr {min($i, [llength $start_list] - 1)}]
    set start($i) [lindex $start_list $named]
    $ns at $start($i) "$ftp start"
}

proc datagrams {from to} {
    global ns opt
    set udp [new Agent/UDP]
    set null [new Agent/Null]
    $udp set packetSize_ $opt(ip_packet_bytes)
    $udp set fid_ $opt(senders)
    $ns attach-agent $from $udp
    $ns attach-agent $to $null
    $ns connect $udp $null
    set cbr [new Application/Traffic/CBR]
    $cbr set packetSize_ $opt(ip_packet_bytes)
    $cbr set rate_ $opt(cbr_bps)
    $cbr attach-agent $udp
    $ns at 0 "$cbr start"
}
if {$opt(cbr_bps) > 0} {
    datagrams $left $right
    datagrams $right $left
}

# Drops alone cost nothing while none happen; the full monitor sees every packet.
set bottleneck [$ns link $left $right]
set monitor [new QueueMonitor]
if {$opt(counters)} {
    set monitor [$ns monitor-queue $left $right ""]
} else {
    set snoop [new SnoopQueue/Drop]
    $snoop set-monitor $monitor
    set drops_to [$bottleneck set drophead_]
    $snoop target [$drops_to target]
    $drops_to target $snoop
}

# Counters so far, per flow and for the bottleneck.
proc snapshot {name} {
    global opt tcp monitor snap
    set snap($name,drops) [$monitor set pdrops_]
    for {set i 0} {$i < $opt(senders)} {incr i} {
        # Sequence number 0 is the SYN: it carries no payload.
        set snap($name,acked,$i) [expr {max(0, [$tcp($i) set ack_])}]
        set snap($name,arrived,$i) [$tcp($i) set nackpack_]
        set snap($name,sent,$i) [$tcp($i) set ndatapack_]
        set snap($name,resent,$i) [$tcp($i) set nrexmitpack_]
        set snap($name,timeouts,$i) [$tcp($i) set nrexmit_]
        set snap($name,cuts,$i) [$tcp($i) set ncwndcuts_]
    }
}

# One line a flow: time, flow, cwnd, ssthresh, packets acknowledged.
proc record_cwnd {} {
    global opt tcp ns cwnd_out
    set now [$ns now]
    for {set i 0} {$i < $opt(senders)} {incr i} {
        set windows "[$tcp($i) set cwnd_] [$tcp($i) set ssthresh_] [$tcp($i) set ack_]"
        puts $cwnd_out "[format %.3f $now] $i $windows"
    }
    $ns at [expr {$now + $opt(cwnd_step_s)}] record_cwnd
}

# Sum of a counter over the flows, between two snapshots.
proc total {what from to} {
    global opt snap
    set sum 0
    for {set i 0} {$i < $opt(senders)} {incr i} {
        set sum [expr {$sum + $snap($to,$what,$i) - $snap($from,$what,$i)}]
    }
    return $sum
}

# A JSON list of one value a flow; @ in the expression is the flow's number.
proc per_flow {expression} {
    global opt
    set items {}
    for {set i 0} {$i < $opt(senders)} {incr i} {
        lappend items [uplevel 1 [list expr [string map "@ $i" $expression]]]
    }
    return "\[[join_items $items]\]"
}
proc join_items {items} { return [string map {" " ", "} [concat $items]] }

# Processor time of this run so far, s; Linux only. Not disturbed by other programs
# as wall-clock time is.
proc cpu_s {} {
    set stat [open /proc/self/stat]
    set fields [lrange [split [lindex [split [read $stat] ")"] end]] 12 13]
    close $stat
    return [expr {([lindex $fields 0] + [lindex $fields 1]) / 100.0}]
}

# Adds one member to the JSON object.
proc member {key value} {
    global json
    append json [expr {$json eq "" ? "\{" : ", "}] "\"$key\": $value"
}

# What was simulated.
proc members_of_scenario {} {
    global opt payload_bytes bdp_packets start
    member simulator "\"ns-2.35\""
    member agent "\"$opt(agent)\""
    member senders $opt(senders)
    member bottleneck_bps [format %.0f $opt(bottleneck_bps)]
    member access_bps [format %.0f $opt(access_bps)]
    member rtt_ms $opt(rtt_ms)
    member buffer_packets $opt(buffer_packets)
    member bdp_packets [format %.2f $bdp_packets]
    if {$opt(ssthresh_packets) > 0} { member ssthresh_packets $opt(ssthresh_packets) }
    member ip_packet_bytes $opt(ip_packet_bytes)
    member payload_bytes $payload_bytes
    member duration_s $opt(duration_s)
    member start_s [per_flow {$start(@)}]
}

# Share of the bottleneck's bits that reached the receivers' side, duplicates too.
proc utilisation {from seconds} {
    global opt
    set bits [expr {[total arrived $from end] * $opt(ip_packet_bytes) * 8.0}]
    return [format %.5f [expr {$bits / $opt(bottleneck_bps) / $seconds}]]
}

# What came out, for the whole run and for its second half.
proc members_of_result {} {
    global opt snap payload_bytes start
    set half_s [expr {$opt(duration_s) / 2.0}]
    set bits [expr {$payload_bytes * 8.0}]
    member goodput_bps \
        [per_flow {round($snap(end,acked,@) * $bits / ($opt(duration_s) - $start(@)))}]
    member second_half_goodput_bps \
        [per_flow {round(($snap(end,acked,@) - $snap(half,acked,@)) * $bits / $half_s)}]
    member utilisation [utilisation zero $opt(duration_s)]
    member second_half_utilisation [utilisation half $half_s]
    member bottleneck_drops $snap(end,drops)
    member second_half_bottleneck_drops [expr {$snap(end,drops) - $snap(half,drops)}]
    member packets_sent [per_flow {$snap(end,sent,@)}]
    member retransmits [per_flow {$snap(end,resent,@)}]
    member timeouts [per_flow {$snap(end,timeouts,@)}]
    member cwnd_cuts [per_flow {$snap(end,cuts,@)}]
    member second_half_cwnd_cuts [per_flow {$snap(end,cuts,@) - $snap(half,cuts,@)}]
}

proc finish {} {
    global opt json monitor wall_begin cwnd_out
    set wall_s [expr {([clock clicks -milliseconds] - $wall_begin) / 1e3}]
    snapshot end
    set json ""
    members_of_scenario
    members_of_result
    if {$opt(counters)} {
        member link_packets [$monitor set parrivals_]
        member link_bytes [format %.0f [$monitor set barrivals_]]
    }
    member cpu_s [format %.2f [cpu_s]]
    member wall_s [format %.3f $wall_s]
    if {$opt(cwnd_file) ne ""} { close $cwnd_out }
    puts "$json\}"
    flush stdout
    exit 0
}

if {$opt(cwnd_file) ne ""} {
    set cwnd_out [open $opt(cwnd_file) w]
    puts $cwnd_out "# time_s flow cwnd_packets ssthresh_packets acked_packets"
    $ns at 0.001 record_cwnd
}
snapshot zero
$ns at [expr {$opt(duration_s) / 2.0}] "snapshot half"
$ns at $opt(duration_s) finish
set wall_begin [clock clicks -milliseconds]
$ns run
