package graphs

import (
	"context"
	"fmt"
)

// Work is what steps are made of.
type Work func(ctx context.Context, what string) (string, error)

// Numbers is a slice with a name.
type Numbers []int

// diamond has two ways from its begin to its end. Its first failure cancels the rest.
//
//flow:dag
type diamond struct {
	Name string
	work Work
}

//flow:step
func (d *diamond) slow(ctx context.Context) (string, error) { return d.work(ctx, "slow") }

//flow:step
func (d *diamond) first(ctx context.Context) (string, error) { return d.work(ctx, "first") }

//flow:step
func (d *diamond) second(ctx context.Context, first string) (string, error) {
	return d.work(ctx, first+" second")
}

//flow:step
func (d *diamond) both(ctx context.Context, slow, second string) (string, error) {
	return d.work(ctx, slow+" and "+second)
}

// survey goes on where it can.
//
//flow:dag onfail=finish result=good
type survey struct{ work Work }

//flow:step
func (s survey) one(ctx context.Context) (string, error) { return s.work(ctx, "one") }

//flow:step after=one
func (s survey) afterOne(ctx context.Context) error {
	_, err := s.work(ctx, "after one")
	return err
}

//flow:step onfail=skip
func (s survey) may(ctx context.Context) (string, error) { return s.work(ctx, "may") }

//flow:step after=may
func (s survey) afterMay(ctx context.Context) error {
	_, err := s.work(ctx, "after may")
	return err
}

//flow:step
func (s survey) takesMay(ctx context.Context, may string) error {
	_, err := s.work(ctx, "takes "+may)
	return err
}

//flow:step
func (s survey) good(ctx context.Context, may *string) (string, error) {
	if may == nil {
		return s.work(ctx, "good alone")
	}
	return s.work(ctx, "good with "+*may)
}

//flow:step after=good
func (s survey) two(ctx context.Context, one string) error {
	_, err := s.work(ctx, "two")
	return err
}

// shapes has a step of each kind, and names that generated code needs itself.
//
//flow:dag priority=N
type shapes struct {
	N    int `json:"n"`
	work Work
}

//flow:step
func (s *shapes) numbers(ctx context.Context) (Numbers, error) {
	all := Numbers{}
	for i := range s.N {
		all = append(all, i+1)
	}
	return all, nil
}

//flow:step each=numbers
func (s *shapes) double(ctx context.Context, numbers int) (int, error) { return 2 * numbers, nil }

// again is asked once for each number, whatever its place.
//
//flow:step each=double key=s.N+double
func (s *shapes) again(ctx context.Context, double int, numbers Numbers) (string, error) {
	return s.work(ctx, fmt.Sprint(double, " of ", len(numbers)))
}

//flow:step
func (s *shapes) sum(ctx context.Context, double ...int) (int, error) {
	sum := 0
	for _, d := range double {
		sum += d
	}
	return sum, nil
}

//flow:step if=isBig
func (s *shapes) big(ctx context.Context, sum int) (int, error) { return sum, nil }

func (s *shapes) isBig(sum int, again []string) bool { return sum > s.N*len(again) }

//flow:step
func (s *shapes) copy(ctx context.Context, big *int) (string, error) {
	return s.work(ctx, fmt.Sprint("copy ", big != nil))
}

// end is skipped with what it takes.
//
//flow:step
func (s *shapes) end(ctx context.Context, big int) (string, error) {
	return s.work(ctx, fmt.Sprint("end ", big))
}

//flow:step after=numbers
func (s *shapes) g(ctx context.Context, sum int) (bool, error) { return sum > 0, nil }

//flow:step after=sum,end
func (s *shapes) log(ctx context.Context) error {
	_, err := s.work(ctx, "log")
	return err
}
