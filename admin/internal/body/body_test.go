package body_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/body"
)

// timed is a response recorder that records the read deadlines.
type timed struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

// SetReadDeadline is called by http.ResponseController.
func (t *timed) SetReadDeadline(at time.Time) error {
	t.deadlines = append(t.deadlines, at)
	return nil
}

// half is a body whose end does not arrive.
type half struct{}

func (half) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestOPS3_AFormThatIsNotSentToItsEndTimesOut(t *testing.T) {
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "/", half{})
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	err := body.Form(w, r, 1<<20, time.Second)
	if p := admin.ProblemOf(err); p == nil || p.Status != http.StatusRequestTimeout {
		t.Errorf("got %v, want a problem with status 408", err)
	}
	if len(w.deadlines) != 1 || w.deadlines[0].IsZero() {
		t.Errorf("got the deadlines %v, want one, which stays", w.deadlines)
	}
}

func TestOPS3_AFormIsBounded(t *testing.T) {
	form := func(size int) error {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("token="+strings.Repeat("x", size)))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		err := body.Form(httptest.NewRecorder(), r, body.MaxLogin, time.Second)
		if err == nil && len(r.PostForm.Get("token")) != size {
			err = errors.New("the form is not whole")
		}
		return err
	}
	if err := form(10_000); err != nil {
		t.Errorf("a token of 10,000 bytes: got %v", err)
	}
	if p := admin.ProblemOf(form(20_000)); p == nil || p.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a token of 20,000 bytes: got %v, want a problem with status 413", p)
	}
}

func TestOPS3_BodiesShareABudget(t *testing.T) {
	b := body.NewBudget(100)
	request := func(size int) *http.Request {
		return httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", size)))
	}
	first := b.Take(request(60), 1000)
	if first == nil || b.Take(request(60), 1000) != nil || b.Take(request(60), 30) == nil {
		t.Error("60 of 100 bytes, then 60 and 30: want the first and the last")
	}
	first()
	if b.Take(request(70), 1000) == nil {
		t.Error("what was given back is not there")
	}
}
