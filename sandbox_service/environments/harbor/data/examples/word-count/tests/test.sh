#!/bin/bash
# The agent's file is data here: nothing that the agent wrote is run.
expected=$'the 8\nis 5\nand 4'
if [ -f /app/top.txt ] && [ "$(head -c 200 /app/top.txt | sed 's/[[:space:]]*$//')" = "$expected" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
