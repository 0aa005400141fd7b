#!/bin/bash
tail -n +2 "$LEDGER" | awk -F, '{sum += $2} END {print sum}' > /app/total.txt
