# SPDX-License-Identifier: GPL-2.0-or-later
import re, sys
sys.stdout.buffer.write(bytes.fromhex(re.search("<pre>([0-9a-f]+)</pre>", sys.stdin.read())[1]))
