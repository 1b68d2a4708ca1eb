// SPDX-License-Identifier: GPL-2.0-or-later
require("http").get(process.argv[2], (answer) => answer.pipe(require("fs").createWriteStream(process.argv[3])));
