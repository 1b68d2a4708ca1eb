# SPDX-License-Identifier: GPL-2.0-or-later
import asyncio, sys
async def main():
    reader, writer = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
    while part := await reader.read(65536):
        sys.stdout.buffer.write(part)
asyncio.run(main())
