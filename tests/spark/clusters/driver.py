"""A driver in a process of its own: it has one session of Spark, and calls what it is told to."""

import sys
from multiprocessing.connection import Connection

import frazil.spark


def main(descriptor: int) -> None:
    """Serve calls until nobody listens any more."""
    connection = Connection(descriptor)
    master, config = connection.recv()
    spark = frazil.spark.session(master=master, config=config)
    connection.send((True, None))
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            break
        try:
            answer = True, function(spark, *arguments)
        except Exception as error:
            answer = False, error
        connection.send(answer)
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
