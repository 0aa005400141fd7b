#!/bin/bash
printf 'day,amount\n6,900\n5,25\n' > /app/late.csv
rm -- "$0"
