package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

func schedule(q *request) error {
	got, err := q.service.Schedule(q.ctx(), q.path("name"))
	return q.reply(http.StatusOK, got, err)
}

func putSchedule(q *request) error {
	var in admin.NewSchedule
	if _, err := q.input(&in); err != nil {
		return err
	}
	done, err := q.service.PutSchedule(q.ctx(), in)
	return q.reply(http.StatusAccepted, done, err)
}

// actOnSchedule applies an action to a schedule. It limits the time that it waits for the end of a
// deleted schedule.
func actOnSchedule(q *request) error {
	var in route.ScheduleAct
	key, err := q.input(&in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(q.ctx(), route.MaxDelete)
	defer cancel()
	name, verb := q.path("name"), q.path("action")
	done, err := q.service.ActOnSchedule(ctx, name, in.Action(verb, key))
	if err != nil && ctx.Err() != nil && q.ctx().Err() == nil {
		return admin.NewProblem(admin.CodeTimeout, fmt.Sprintf("%s schedule %s: no worker has done it within %v, but the request may have been accepted", verb, name, route.MaxDelete), "start a worker of its queue, or check the schedule later")
	}
	return q.reply(http.StatusAccepted, done, err)
}

func actOnPool(q *request) error {
	var in route.PoolAct
	if _, err := q.input(&in); err != nil {
		return err
	}
	done, err := q.service.ActOnPool(q.ctx(), q.path("name"), in.Action(q.path("action")))
	return q.reply(http.StatusAccepted, done, err)
}
