// SPDX-License-Identifier: GPL-2.0-or-later
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	static char part[65536];
	struct sockaddr_in to = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	ssize_t got;
	if (argc != 3)
		return 2;
	to.sin_port = htons(atoi(argv[2]));
	inet_pton(AF_INET, argv[1], &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof to))
		return 1;
	while ((got = read(fd, part, sizeof part)) > 0)
		if (write(1, part, got) != got)
			return 1;
	return got < 0;
}
