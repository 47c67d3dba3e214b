package flow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestLinks_WaitForAnOperationThatAnInterceptorHasLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, release := make(chan struct{}), make(chan struct{})
		l := Links[context.Context]{
			Names: []string{"hasty"}, Wait: true, Check: func(context.Context) string { return "" },
			Call: func(_ int, ctx context.Context, next func(context.Context) error) error {
				go func() { _ = next(ctx) }()
				<-begun
				return nil
			},
			Code: func(context.Context) error {
				close(begun)
				<-release
				return nil
			},
		}
		got := make(chan error, 1)
		go func() { got <- l.Intercept(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("Intercept returned %v while the operation was running", err)
		default:
		}
		close(release)
		var wrong *InterceptorError
		if err := <-got; !errors.As(err, &wrong) || wrong.Misuse != "returned while next was running" {
			t.Errorf("Intercept returned %v", err)
		}
	})
}

func TestLinks_APanicOfTheOperationPassesThrough(t *testing.T) {
	l := Links[int]{
		Names: []string{"a", "b"}, Check: func(int) string { return "" },
		Call: func(_ int, ctx int, next func(int) error) error { return next(ctx + 1) },
		Code: func(ctx int) error { panic(ctx) },
	}
	defer func() {
		if r := recover(); r != 2 {
			t.Errorf("recovered %v", r)
		}
	}()
	t.Errorf("Intercept returned %v", l.Intercept(0))
}
