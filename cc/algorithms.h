/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every algorithm of this folder, a line each: how it attaches, and its name, which is its file's.
 *	CC_WINDOW	decides the window outside of recovery; the caller does the recovery
 *	CC_RATE		decides window and pacing rate at every acknowledgement, recovery included
 * The builds of crates/spine/congestion and crates/measure/kernel read these lines.
 */
CC_RATE(bbr)
CC_WINDOW(bic)
CC_WINDOW(cubic)
CC_RATE(fast)
CC_WINDOW(highspeed)
CC_WINDOW(htcp)
CC_RATE(libra)
CC_WINDOW(reno)
CC_WINDOW(scalable)
