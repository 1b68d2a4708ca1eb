// SPDX-License-Identifier: GPL-2.0-or-later
package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		panic(err)
	}
	file, _ := os.Create(os.Args[2])
	if _, err := io.Copy(file, answer.Body); err != nil {
		panic(err)
	}
}
