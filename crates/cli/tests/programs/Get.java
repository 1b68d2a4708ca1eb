// SPDX-License-Identifier: GPL-2.0-or-later
import java.net.*;
import java.net.http.*;
import java.nio.file.*;
class Get {
    public static void main(String[] args) throws Exception {
        var client = HttpClient.newBuilder().proxy(ProxySelector.getDefault()).build();
        client.send(HttpRequest.newBuilder(URI.create(args[0])).build(), HttpResponse.BodyHandlers.ofFile(Path.of(args[1])));
    }
}
