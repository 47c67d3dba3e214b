package ops

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/deploy"
	"github.com/flowgen/flowgen/runtime/store"
)

// Ramp sets which builds receive the new runs of pinned workflows, in percent. Each client uses the
// new percentages within 5 seconds. Runs that exist do not move, and runs that are not pinned are
// not affected.
//
// The percentages of several builds must sum to 100, and all other builds get 0. If percent contains
// one build, the others share the rest in proportion to their present percentages. If none of them
// has a percentage, the only other live build gets the rest. Without builds, Ramp removes the
// distribution: a new run is then pinned to the build of the process that starts it, or to the
// newest live build. Ramp returns the percentages of all builds that have one.
//
// Errors: an *[UnknownBuildError] for a build without live workers that is not recorded; a
// *[store.InvalidError] if the percentages do not sum to 100 or are out of range; a
// *[BuildStateError] for a retired build; or an error that matches workflow.ErrNotSupported if the
// store keeps no entries.
func (c *Client) Ramp(ctx context.Context, percent map[string]int) (map[string]int, error) {
	got := map[string]int{}
	err := c.change(ctx, "ramp", slices.Sorted(maps.Keys(percent)), func(b *builds, s *deploy.State) error {
		all, err := b.distribution(s, percent)
		if err != nil {
			return err
		}
		for build := range all {
			s.Add(build)
		}
		clear(got)
		for i := range s.Builds {
			r := &s.Builds[i]
			if r.Percent = all[r.ID]; r.Percent > 0 {
				got[r.ID] = r.Percent
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// Retire takes a build out of use. It receives no new runs of pinned workflows, and its workers stop
// claiming runs within seconds if they serve pinned workflows. Its pinned runs move to the workers of
// the build to, or of any build if to is empty, as soon as they are executed. Those whose logs do not
// fit the code of any other build become blocked, and the workers of the retired build continue them:
// see [Client.Drained]. The percentage of the build is given to the build to, or to the others in
// proportion to theirs, or to the only other live build.
//
// Errors: an *[UnknownBuildError]; a *[BuildStateError] if no other build has live workers, if to is
// retired or has no live workers, or if the build has all percent, to is empty and several others are
// live; a *[store.InvalidError] if to is the same build; or an error
// that matches workflow.ErrNotSupported if the store keeps no entries.
func (c *Client) Retire(ctx context.Context, build, to string) error {
	names := []string{build}
	if to != "" {
		names = append(names, to)
	}
	return c.change(ctx, "retire build "+build, names, func(b *builds, s *deploy.State) error {
		if err := b.mayRetire(s, build, to); err != nil {
			return err
		}
		r := s.Add(build)
		if r.Retired.IsZero() {
			r.Retired = b.now.UTC()
		}
		r.To = to
		if n := r.Percent; n > 0 {
			r.Percent = 0
			return b.giveShare(s, build, to, n)
		}
		return nil
	})
}

// Unretire takes a retired build into use again, for example for a rollback. It does nothing if the
// build is not retired. The errors are those of Retire.
func (c *Client) Unretire(ctx context.Context, build string) error {
	return c.change(ctx, "unretire build "+build, []string{build}, func(_ *builds, s *deploy.State) error {
		if r := s.Build(build); r != nil {
			r.Retired, r.To = time.Time{}, ""
		}
		return nil
	})
}

// change changes the record of deployments. what describes the operation in errors. All named builds
// must be known.
func (c *Client) change(ctx context.Context, what string, names []string, f func(*builds, *deploy.State) error) error {
	b, err := c.builds(ctx, what)
	if err != nil {
		return err
	}
	entries, err := capability[store.Entries](c, what)
	if err != nil {
		return err
	}
	_, err = deploy.Update(ctx, entries, func(s *deploy.State) error {
		b.state = *s
		for _, name := range names {
			if err := b.check(name); err != nil {
				return err
			}
		}
		return f(b, s)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// distribution returns the percentages of all builds that the given percentages result in.
func (b *builds) distribution(s *deploy.State, percent map[string]int) (map[string]int, error) {
	sum := 0
	for _, build := range slices.Sorted(maps.Keys(percent)) {
		n := percent[build]
		switch {
		case n < 0 || n > 100:
			return nil, &store.InvalidError{What: "percentage of build " + build, Value: fmt.Sprint(n), Reason: "is not from 0 to 100"}
		case n > 0 && s.Retired(build):
			return nil, &BuildStateError{Build: build, Reason: "is retired: take it into use again with unretire, or name another build"}
		}
		sum += n
	}
	all := maps.Clone(percent)
	switch {
	case len(percent) == 0 || sum == 100:
		return all, nil
	case len(percent) > 1:
		return nil, percentError(sum, "percentages of several builds must sum to 100")
	}
	one := slices.Collect(maps.Keys(percent))[0]
	others := map[string]int{}
	for i := range s.Builds {
		if r := &s.Builds[i]; r.ID != one && r.Percent > 0 {
			others[r.ID] = r.Percent
		}
	}
	if len(others) == 0 {
		live := b.receivers(s, one)
		if len(live) != 1 {
			fix := fmt.Sprintf("set the percentages of all builds that receive the other %d", 100-sum)
			if len(live) > 1 {
				fix += ": the live ones are " + strings.Join(live, ", ")
			}
			return nil, percentError(sum, fix)
		}
		others[live[0]] = 1
	}
	maps.Copy(all, shares(others, 100-sum))
	return all, nil
}

func percentError(sum int, fix string) error {
	return &store.InvalidError{What: "sum of the percentages", Value: fmt.Sprint(sum), Reason: "is not 100: " + fix}
}

// shares distributes n over the builds in proportion to their weights, of which one at least is
// positive. The result is in whole numbers and sums to n. Builds whose parts are cut most get the
// rest.
func shares(weights map[string]int, n int) map[string]int {
	total, all, rest := 0, make(map[string]int, len(weights)), n
	for _, w := range weights {
		total += w
	}
	for build, w := range weights {
		all[build] = n * w / total
		rest -= all[build]
	}
	order := slices.Sorted(maps.Keys(weights))
	slices.SortStableFunc(order, func(x, y string) int { return n*weights[y]%total - n*weights[x]%total })
	for _, build := range order[:rest] {
		all[build]++
	}
	return all
}

// giveShare gives n percent of a retired build to the build to. If to is empty, the other builds get
// it in proportion to their percentages. If they have none, the only other live build gets it. It
// returns an error if there are several, because one of them may be a canary with 0 percent.
func (b *builds) giveShare(s *deploy.State, build, to string, n int) error {
	if to != "" {
		s.Add(to).Percent += n
		return nil
	}
	others := map[string]int{}
	for i := range s.Builds {
		if r := &s.Builds[i]; r.ID != build && r.Percent > 0 {
			others[r.ID] = r.Percent
		}
	}
	if len(others) == 0 {
		live := b.receivers(s, build)
		if len(live) > 1 {
			return &BuildStateError{Build: build, Reason: "receives all new runs: name the build that receives them instead: the live ones are " + strings.Join(live, ", ")}
		}
		for _, other := range live {
			s.Add(other)
			others[other] = 1
		}
	}
	if len(others) > 0 {
		for other, percent := range shares(others, 100) {
			s.Build(other).Percent = percent
		}
	}
	return nil
}

// mayRetire returns an error if the build cannot be retired.
func (b *builds) mayRetire(s *deploy.State, build, to string) error {
	switch {
	case to == build:
		return &store.InvalidError{What: "build", Value: to, Reason: "cannot receive its own runs: name another build"}
	case to != "" && s.Retired(to):
		return &BuildStateError{Build: to, Reason: "is retired and cannot receive runs: name another build"}
	case to != "" && !b.codes[to]:
		return &BuildStateError{Build: to, Reason: "has no live workers that could receive runs: start them first"}
	}
	if len(b.receivers(s, build)) == 0 && len(b.workers[build]) > 0 {
		return &BuildStateError{Build: build, Reason: "is the only build with live workers: start workers of another build first"}
	}
	return nil
}
