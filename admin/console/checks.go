package console

import (
	"fmt"

	"github.com/flowgen/flowgen/admin"
)

// checksView says how the store is.
type checksView struct {
	Exam    *admin.Exam
	NoExam  *admin.Problem
	Checked *admin.Checked
	Problem *admin.Problem
	May     bool   // repair
	Why     string // a reason is asked for
	Reason  string // that was typed
	Key     string
	Doctor  string // the commands of flowctl
	Command string
}

// severities have the statuses whose colours and icons they share.
var severities = map[string]string{"ok": "completed", "info": "pending", "warn": "warning", "fail": "failed"}

func checksPage(q *request) (*view, error) {
	c, err := q.checks()
	if err != nil {
		return nil, err
	}
	return &view{name: "checks", Title: "Checks", Nav: "checks", Data: c}, nil
}

// checks asks the doctor. It is shown without an answer if the servers have none.
func (q *request) checks() (*checksView, error) {
	c := &checksView{Key: newKey(), Why: whyInJournal, Reason: because(q.r.PostForm), May: q.who.Role.Allows(admin.RoleAdmin), Doctor: q.h.command("doctor"), Command: q.h.command("fsck")}
	exam, err := q.service.Examine(q.ctx())
	if p := admin.ProblemOf(err); p != nil {
		if p.Code == admin.CodeForbidden {
			return nil, err
		}
		c.NoExam = p
		return c, nil
	}
	c.Exam = &exam
	return c, nil
}

// planPage says what is broken, and what a repair would do.
func planPage(q *request) (*view, error) { return q.plan(nil) }

func (q *request) plan(wrong error) (*view, error) {
	c, err := q.checks()
	if err != nil {
		return nil, err
	}
	v := &view{name: "checks", Title: "Checks", Nav: "checks", Data: c}
	checked, err := q.service.Check(q.ctx())
	if err == nil {
		c.Checked = &checked
	}
	if wrong == nil {
		wrong = err
	}
	if wrong != nil {
		c.Problem = admin.ProblemOf(wrong)
		v.Status = c.Problem.Status
	}
	return v, nil
}

// repair repairs the store once somebody has typed how many repairs the plan has. If that is refused, the page says why, beside the plan.
func repair(q *request) (string, *view, error) {
	form := q.r.PostForm
	if form.Get("expect") == "" || digits(form.Get("count")) != form.Get("expect") {
		v, err := q.plan(&admin.InputError{What: fmt.Sprintf("%.20q was typed, which is not how many repairs are planned", form.Get("count")), Fix: "read the plan, and type the number of repairs in it"})
		return "", v, err
	}
	to, v, err := q.h.once.do(q.who.Name, form.Get("key"), "repair", func() (string, *view, error) {
		c, err := q.checks()
		if err != nil {
			return "", nil, err
		}
		done, err := q.service.Repair(q.ctx(), admin.Because{Reason: because(form)})
		if err != nil {
			return "", nil, err
		}
		c.Checked, c.Command = &done, q.h.command("fsck --repair")
		return "", &view{name: "checks", Title: "Checks", Nav: "checks", Data: c}, nil
	})
	if p := admin.ProblemOf(err); p != nil && p.Code != admin.CodeForbidden {
		v, err = q.plan(err)
		return "", v, err
	}
	return to, v, err
}
