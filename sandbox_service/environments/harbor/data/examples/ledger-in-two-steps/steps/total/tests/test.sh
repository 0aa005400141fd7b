#!/bin/bash
# A map of rewards: "reward" is the task's, the other one is shown beside it.
right=0; present=0
[ -f /app/total.txt ] && present=1 && [ "$(head -c 20 /app/total.txt | tr -d '[:space:]')" = 390 ] && right=1
printf '{"reward": %d, "present": %d}\n' "$right" "$present" > /logs/verifier/reward.json
