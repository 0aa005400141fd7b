"""What runs inside the box: standard library only, Linux, one small program in several processes.

    main            entry: forks the launcher, then serves
    server          the runner proper: host on one side, launcher and zygote on the other
      host            the listening socket, HELLO, the connection that comes back
      box             instances, and what each frame does to them
      departures      how instances leave: released, or lost with their worker
      workers         the runner's view of workers: order, deadlines, deaths
      agents          the runner's view of the launcher
      loop, link, message_link   readiness and timers; frames and messages that never block
      statistics      memory of the box's processes
    zygote          imports the world once and forks workers
    worker          answers frames for one instance or many
      episode         one instance: world, step count, the JSON of its results
      agent           the Agent that a world is given
        session_end, candidates, capture, control   the worker's ends of agent processes and launcher
      box_files       the service's own file frames
      copying         the fork verb
    launcher        makes and ends agent processes; never sees a task
      desk            what one instance's worker may ask of it
      premises, families   whose processes and directories are whose, and their end
      lodgings, quarters   what instances write, and folders that each has to itself
      errands         cleaning in children, so that nothing waits for it
      sweep           ends processes by user id or by tree, and proves it
      janitor, cleaning   removes files and System V objects, and proves it
      spawn           from a fork to the first instruction that is not ours
    session, files, candidate, workspace_copy   run under an agent's user id
    frames, packets, channel, descriptors       what the processes say to each other, and how
    kernel, processes, wakeup, leaving          what all of them ask of the kernel
    confinement     what the kernel still does for agents and environment
    config          the box's configuration, as the first HELLO brings it
    world           what an environment implements, and what it is given

Who may do what: the runner is root with three capabilities, or an ordinary user; zygote and workers are the
environment's user; an agent's processes are the instance's user, hold one descriptor of ours at most, and
nothing they say is believed beyond "this call is over".
"""
