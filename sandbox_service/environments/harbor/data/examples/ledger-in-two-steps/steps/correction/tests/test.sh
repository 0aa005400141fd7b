#!/bin/bash
right=0
[ "$(head -c 20 /app/total.txt | tr -d '[:space:]')" = "$WANTED" ] \
    && [ "$(tail -n 2 /app/ledger.csv | tr '\n' ' ')" = "5,25 6,900 " ] && right=1
printf '{"reward": %d, "present": 1}\n' "$right" > /logs/verifier/reward.json
