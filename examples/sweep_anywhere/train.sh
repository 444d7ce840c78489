#!/bin/sh
#ROTA --name sweep-{rate}-{steps} --cpus 1 --workdir /tmp
#ROTA --param rate=0.05,0.2,0.9 --param steps=5,20
# Gradient descent on (x - 3)^2 from 0. It needs nothing but a shell and awk, on whatever runs it.
awk -v rate="$ROTA_PARAM_rate" -v steps="$ROTA_PARAM_steps" 'BEGIN {
    for (x = 0; done < steps; done++) x -= rate * 2 * (x - 3)
    printf "%.6f rate=%s steps=%s x=%.4f\n", (x - 3) ^ 2, rate, steps, x
}'
