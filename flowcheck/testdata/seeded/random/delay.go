package random

import (
	"math/rand/v2"
	"time"
)

func backoff(n int) time.Duration { return time.Duration(n)*time.Second + rand.N(time.Second) }

type drum struct{}

func (drum) draw() bool { return rand.Float64() < 0.1 }
