"""The S3 server of moto, which answers one request at a time.

A store decides whether an object is there and puts it at one instant. moto does not: of two requests that may put an
object only where there is none, both can succeed.
"""

import io
import threading

from moto import server

turn = threading.Lock()
run_simple = server.run_simple


def one_at_a_time(app):
    def answer(environ, start_response):
        # Whoever sends slowly holds nobody up.
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        with turn:
            return list(app(environ, start_response))

    return answer


server.run_simple = lambda host, port, app, **more: run_simple(host, port, one_at_a_time(app), **more)
server.main()
