package uses_crosswise

import (
	"context"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	GPU  = limit.New("gpu", limit.Config{AtOnce: 4})
	Disk = limit.New("disk", limit.Config{AtOnce: 2})
	Net  = limit.New("net", limit.Config{AtOnce: 2})
)

//flow:step uses=Disk
func save(ctx context.Context, image string) error { return nil }

//flow:step uses=GPU:2
func render(ctx context.Context, scene string) (string, error) { return scene, nil }

//flow:step uses=Net
func send(ctx context.Context, image string) error { return nil }

// film holds GPU while it waits for Disk.
//
//flow:workflow uses=GPU
func film(ctx workflow.Context, scene string) error { return store(ctx, scene) }

func store(ctx workflow.Context, image string) error { return Save(ctx, image) }

// restore holds Disk while it waits for GPU.
//
//flow:workflow uses=Disk
func restore(ctx workflow.Context, scene string) error {
	_, err := Render(ctx, scene)
	return err
}

// again holds GPU already: it waits for nobody.
//
//flow:workflow uses=GPU
func again(ctx workflow.Context, scene string) error {
	_, err := Render(ctx, scene)
	return err
}

// publish holds Disk while it waits for Net, which nobody holds for Disk.
//
//flow:workflow uses=Disk
func publish(ctx workflow.Context, image string) error { return Send(ctx, image) }

// both holds all that it calls for.
//
//flow:workflow uses=GPU,Disk
func both(ctx workflow.Context, image string) error { return Save(ctx, image) }
