#!/bin/bash
# Only the artifact and the task's own files are here, whatever else the agent has left.
score=0
if [ -f /app/sort.sh ]; then
    first=$(timeout 10 bash /app/sort.sh < /app/example.txt | tr '\n' ' ')
    second=$(printf 'zoe 3\nal 100\nmia 21\nben 21\n' | timeout 10 bash /app/sort.sh | tr '\n' ' ')
    [ "$first" = "bob ann cid " ] && [ "$second" = "al ben mia zoe " ] && score=1
fi
rm -rf /logs/verifier/reward.json
echo "$score" > /logs/verifier/reward.txt
