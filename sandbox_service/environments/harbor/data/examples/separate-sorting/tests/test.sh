#!/bin/bash
# Only the artifact and the task's own files are here, whatever else the agent has left. The artifact is data, and
# nothing that the agent wrote is run: a script of its could read these tests, kill them, and leave a process that
# goes on replacing the reward.
score=0
wanted=$(sort -k2,2nr -k1,1 /app/scores.txt | cut -d' ' -f1)
[ -f /app/ranking.txt ] && [ "$(head -c 1000 /app/ranking.txt)" = "$wanted" ] && score=1
echo "$score" > /logs/verifier/reward.txt
