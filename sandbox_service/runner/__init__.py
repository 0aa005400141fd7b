"""The program that runs inside a box: Linux, standard library only, a folder for each process and zone.

    main_process    accepts the host's connection, routes its frames to workers, owns the instances
    worker          the zygote, which imports the world once, and the workers that it forks
    launcher        makes, owns, kills and cleans up the processes of agents; never sees a task
    untrusted       what runs under an agent's user id: sessions, candidates, file helpers
    config, world   the box's configuration; what an environment implements, and what it is given
    messages        the messages that these processes send each other
    io              non-blocking connections, packets and the event loop
    kernel          what all of them ask of the kernel: privileges, /proc, killing, removal

Rights: the main process and the launcher are root with three capabilities, or an ordinary user; zygote and
workers have the environment's user id; an agent's processes have the instance's, and hold one descriptor of
the runner's at most. Nothing that they send is believed beyond "this call is over".
"""
