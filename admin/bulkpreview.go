package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// preview is the content of the token of a preview. The token grants no rights, because its bearer
// could send the same request without a token. A checksum detects damaged and forged tokens.
type preview struct {
	Filter Filter    `json:"filter"` // Filter.Until is not after the time of the preview
	All    bool      `json:"all,omitempty"`
	Action Action    `json:"action"`
	At     time.Time `json:"at"`
	Count  int       `json:"count"`
}

const previewSum = 8

func (p *preview) token() (string, error) {
	b, err := json.Marshal(p)
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(append(sum[:previewSum], b...)), err
}

func readPreview(token string) (*preview, error) {
	bad := &InputError{What: "the token is not that of a preview", Fix: "use the token of a preview unchanged"}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < previewSum {
		return nil, bad
	}
	sum := sha256.Sum256(b[previewSum:])
	p := &preview{}
	if !bytes.Equal(sum[:previewSum], b[:previewSum]) || json.Unmarshal(b[previewSum:], p) != nil {
		return nil, bad
	}
	return p, nil
}

// Preview returns the effects that a bulk action would have at present. It changes nothing.
func (s *Service) Preview(ctx context.Context, r BulkRequest) (BulkPreview, error) {
	if s.who.Owner != "" && !r.All && r.Filter.isZero() { // a request with a token has its filter in the token
		return BulkPreview{}, errNoFilter
	}
	var err error
	if r.Filter, err = s.mayBulk(r.Filter, r.Action); err != nil {
		return BulkPreview{}, err
	}
	p, err := s.preview(ctx, r)
	for i := range p.Samples {
		s.hide(&p.Samples[i])
	}
	return p, err
}

// preview is like [Service.Preview], but does not check the rights of the principal.
func (s *Service) preview(ctx context.Context, r BulkRequest) (BulkPreview, error) {
	v, err := r.check()
	if err != nil {
		return BulkPreview{}, err
	}
	r.Action.Key = ""
	p := preview{Filter: r.Filter, All: r.All, Action: r.Action}
	if p.At, err = s.existing(ctx, &p.Filter); err != nil {
		return BulkPreview{}, err
	}
	got := BulkPreview{At: p.At, Samples: []Run{}}
	statuses, groups, refusals := map[string]int{}, map[string]int{}, map[string]int{}
	err = s.survey(ctx, p.Filter, func(i *workflow.RunInfo) {
		got.Count++
		statuses[string(i.Status)]++
		if i.Group != "" {
			groups[i.Group]++
		}
		if !s.takes(ctx, v, i) {
			got.Refused++
			refusals[string(i.Status)]++
		}
		if len(got.Samples) < bulkSamples {
			got.Samples = append(got.Samples, runOf(i))
		}
	})
	if err != nil {
		return BulkPreview{}, err
	}
	got.Statuses, got.Groups, got.Refusals = counted(statuses), counted(groups), counted(refusals)
	got.Groups = got.Groups[:min(len(got.Groups), bulkGroups)]
	p.Count = got.Count
	got.Token, err = p.token()
	return got, err
}

// clocksApart is the maximum difference between two processes' estimates of the clock of a store.
const clocksApart = time.Second

// existing limits f.Until so that the filter selects only runs that exist at present, and returns
// the limit. The store sets creation times in milliseconds. existing waits until the current
// millisecond has passed, so that no later run can have the same creation time. Processes estimate
// the clock of a server, so the newest run may seem to be created in the future.
func (s *Service) existing(ctx context.Context, f *Filter) (time.Time, error) {
	clock := s.client.Store().Clock()
	at := clock.Now().UTC().Truncate(time.Millisecond).Add(time.Millisecond)
	if f.Until.IsZero() || f.Until.After(at) {
		newest, err := s.newest(ctx, *f, at)
		if err != nil {
			return at, err
		}
		at = newest.Add(time.Millisecond)
	}
	for wait := at.Sub(clock.Now()); wait > 0; wait = at.Sub(clock.Now()) {
		passed := make(chan struct{})
		stop := clock.AfterFunc(wait, func() { close(passed) })
		select {
		case <-passed:
		case <-ctx.Done():
			stop()
			return at, ctx.Err()
		}
	}
	if f.Until.IsZero() || f.Until.After(at) {
		f.Until = at
	}
	return at, nil
}

// newest returns the creation time of the newest matching run that was created between at and
// clocksApart after at. If there is none, it returns the millisecond before at.
func (s *Service) newest(ctx context.Context, f Filter, at time.Time) (time.Time, error) {
	f.Since, f.Until, f.Oldest, f.Cursor = at, at.Add(clocksApart), false, ""
	asked, err := f.filter()
	if err != nil {
		return at, err
	}
	page, err := s.client.Page(ctx, asked, 1)
	if err != nil || len(page.Runs) == 0 {
		return at.Add(-time.Millisecond), err
	}
	return page.Runs[0].CreatedAt, nil
}

func counted(m map[string]int) []BulkCount {
	all := []BulkCount{}
	for name, n := range m {
		all = append(all, BulkCount{name, n})
	}
	slices.SortFunc(all, func(a, b BulkCount) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// survey calls visit for each matching run. It reads the runs page by page.
func (s *Service) survey(ctx context.Context, f Filter, visit func(i *workflow.RunInfo)) error {
	for cursor := ""; ; {
		next, err := s.bulkPage(ctx, f, cursor, visit)
		if err != nil || next == "" {
			return err
		}
		cursor = next
	}
}

// off reports whether got differs from want by more than a tenth.
func off(got, want int) bool { return 10*max(got-want, want-got) > want }
