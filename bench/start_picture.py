# SPDX-License-Identifier: GPL-2.0-or-later
"""How transfers start: what has arrived by when, as a table of where the time goes and as a picture."""
import json

import emulated_chain

# Runs at the client: one GET, and what had arrived at each time. No program in use tells that.
READER = """
import json, socket, sys, time
host, port, head = sys.argv[1], int(sys.argv[2]), sys.argv[3]
begun = time.monotonic()
tcp = socket.create_connection((host, port), timeout=20)
connected = time.monotonic() - begun
tcp.sendall(head.encode())
seen, total, skipped = [], 0, b""
while not skipped.endswith(b"\\r\\n\\r\\n"):
    skipped += tcp.recv(1)
length = next(int(line.split(b":")[1]) for line in skipped.split(b"\\r\\n") if line.lower().startswith(b"content-length:"))
first = time.monotonic() - begun
while total < length and time.monotonic() - begun < 20:
    piece = tcp.recv(1 << 18)
    if not piece:
        break
    total += len(piece)
    now = time.monotonic() - begun
    if not seen or now - seen[-1][0] >= 0.002 or total == length:
        seen.append((round(now, 4), total))
print(json.dumps({"connected_s": connected, "first_byte_s": first, "bytes": length, "arrived": seen}))
"""

COLOURS = {"curl-cubic": "#b2182b", "curl-bbr": "#ef8a62", "chain-cold": "#777777", "chain-warm": "#2166ac",
           "site-warm": "#1b7837"}
NAMES = {"curl-cubic": "direct, CUBIC", "curl-bbr": "direct, BBR", "chain-cold": "two depots, cold",
         "chain-warm": "two depots, warm", "site-warm": "site, warm"}


def watch(network, url, host=None):
    """One download, and when its bytes arrived."""
    authority, _, path = url.removeprefix("http://").partition("/")
    address, _, port = authority.partition(":")
    head = f"GET /{path} HTTP/1.1\r\nHost: {host or authority}\r\nConnection: close\r\n\r\n"
    told = emulated_chain.checked(*network.on("client", "python3", "-c", READER, address, port or "80", head))
    return json.loads(told)


def phases(seen, rate_bps):
    """Where the time went, in seconds: they add up to the last."""
    full = seen["bytes"] * 8 / rate_bps
    total = seen["arrived"][-1][0]
    return {"connect": seen["connected_s"], "first_byte": seen["first_byte_s"] - seen["connected_s"],
            "below_full_rate": total - seen["first_byte_s"] - full, "at_full_rate": full, "total": total}


def table(by_way, rate_bps):
    """The phases as rows of Markdown."""
    lines = ["| way | connect | then to the first byte | lost below the link's rate | at the link's rate | all |",
             "|---|---|---|---|---|---|"]
    for way, seen in by_way.items():
        of = phases(seen, rate_bps)
        lines.append(f"| {NAMES[way]} | " + " | ".join(f"{of[key]:.2f}" for key in of) + " |")
    return "\n".join(lines)


def picture(by_way, rate_bps, span_s, title):
    """An SVG: megabytes arrived over the first seconds."""
    wide, high, left, top, right, bottom = 800, 420, 60, 40, 190, 50
    inner, tall = wide - left - right, high - top - bottom
    most = min(max(seen["bytes"] for seen in by_way.values()), rate_bps / 8 * span_s)
    x = lambda s: left + inner * min(s, span_s) / span_s
    y = lambda b: top + tall * (1 - min(b, most) / most)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" '
           f'font-size="13"><rect width="{wide}" height="{high}" fill="white"/>'
           f'<text x="{left}" y="22" font-size="15">{title}</text>']
    for n in range(5):
        at, bytes_ = span_s * n / 4, most * n / 4
        out.append(f'<line x1="{left}" x2="{left + inner}" y1="{y(bytes_):.1f}" y2="{y(bytes_):.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{y(bytes_) + 4:.1f}" text-anchor="end">{bytes_ / 1e6:.3g}</text>'
                   f'<text x="{x(at):.1f}" y="{high - bottom + 20}" text-anchor="middle">{at:.3g}</text>')
    out.append(f'<text x="{left + inner / 2}" y="{high - 12}" text-anchor="middle">seconds since the client began to connect</text>'
               f'<text x="16" y="{top + tall / 2}" text-anchor="middle" '
               f'transform="rotate(-90 16 {top + tall / 2})">MB arrived</text>')
    for n, (way, seen) in enumerate(by_way.items()):
        points = [(seen["first_byte_s"], 0), *seen["arrived"]]
        path = " ".join(f"{x(s):.1f},{y(b):.1f}" for s, b in points if s <= span_s)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[way]}" stroke-width="2"/>')
        height = top + 14 + 20 * n
        out.append(f'<line x1="{left + inner + 12}" x2="{left + inner + 32}" y1="{height - 4}" y2="{height - 4}" '
                   f'stroke="{COLOURS[way]}" stroke-width="3"/>'
                   f'<text x="{left + inner + 38}" y="{height}">{NAMES[way]}</text>')
    return "\n".join(out) + "\n</svg>\n"
