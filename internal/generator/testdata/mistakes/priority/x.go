package priority

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

type plan struct {
	Rank  int
	Large uint64
	Name  string
}

type level int8

func both(p plan) (int, error) { return 0, nil }

//flow:workflow priority=p.Rnk
func field(ctx workflow.Context, p plan) error { return nil }

//flow:workflow priority=p.Rank+
func syntax(ctx workflow.Context, p plan) error { return nil }

//flow:workflow priority=p.Name
func text(ctx workflow.Context, p plan) error { return nil }

//flow:workflow priority=p
func structure(ctx workflow.Context, p plan) error { return nil }

//flow:workflow priority=both(p)
func tuple(ctx workflow.Context, p plan) error { return nil }

//flow:workflow priority=p.Large
func unsigned(ctx workflow.Context, p plan) error { return nil }

//flow:workflow priority=1<<31
func large(ctx workflow.Context, p plan) error { return nil }

//flow:workflow priority=1.5
func fraction(ctx workflow.Context, p plan) error { return nil }

//flow:workflow priority=int(ctx.Err().Error()[0])
func context_(ctx workflow.Context, p plan) error { return nil }

//flow:workflow priority="p.Rank /* higher */"
func comment(ctx workflow.Context, p plan) error { return nil }

//flow:workflow priority="func() int { return 1 }()"
func literal(ctx workflow.Context, p plan) error { return nil }

//flow:workflow priority
func empty(ctx workflow.Context) error { return nil }

//flow:step priority=5
func step(ctx context.Context) error { return nil }

//flow:workflow startwithin=10
func unit(ctx workflow.Context) error { return nil }

//flow:workflow startwithin=0s
func zero(ctx workflow.Context) error { return nil }

//flow:workflow startwithin=1d
func day(ctx workflow.Context) error { return nil }

//flow:step startwithin=1s
func timed(ctx context.Context) error { return nil }

var rank = first()

func first() int { return len(Looped.Name()) }

//flow:workflow priority=rank+n
func looped(ctx workflow.Context, n int) error { return nil }

//flow:workflow priority=-1 startwithin=30s
func constant(ctx workflow.Context) error { return nil }

//flow:workflow priority=level(n)+level(every/time.Hour)
func good(ctx workflow.Context, n int, every time.Duration) error { return nil }
