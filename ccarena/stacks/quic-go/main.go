// One flow over quic-go: `quic-go server` receives what `quic-go client` sends.
package main

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"os"
	"strconv"

	"github.com/quic-go/quic-go"
)

const (
	// Flow-control windows, which are to bound nothing.
	window = 64 << 20
	chunk  = 64 << 10
)

var config = &quic.Config{
	InitialStreamReceiveWindow:     window,
	MaxStreamReceiveWindow:         window,
	InitialConnectionReceiveWindow: window,
	MaxConnectionReceiveWindow:     window,
}

func main() {
	run := send
	if len(os.Args) > 1 && os.Args[1] == "server" {
		run = receive
	}
	if err := run(os.Getenv("CCARENA_RECEIVER") + ":" + os.Getenv("CCARENA_PORT")); err != nil {
		log.Fatal(err)
	}
}

func receive(address string) error {
	certificate, err := tls.LoadX509KeyPair("cert.pem", "key.pem")
	if err != nil {
		return err
	}
	secret := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"stack"}}
	listener, err := quic.ListenAddr(address, secret, config)
	if err != nil {
		return err
	}
	connection, err := listener.Accept(context.Background())
	if err != nil {
		return err
	}
	stream, err := connection.AcceptUniStream(context.Background())
	if err != nil {
		return err
	}
	if _, err = io.CopyBuffer(counter(), stream, make([]byte, chunk)); err != nil {
		return err
	}
	return connection.CloseWithError(0, "")
}

func send(address string) error {
	secret := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"stack"}}
	connection, err := quic.DialAddr(context.Background(), address, secret, config)
	if err != nil {
		return err
	}
	stream, err := connection.OpenUniStream()
	if err != nil {
		return err
	}
	left := int64(1) << 62
	if bytes := os.Getenv("CCARENA_BYTES"); bytes != "" {
		if left, err = strconv.ParseInt(bytes, 10, 64); err != nil {
			return err
		}
	}
	zeros := make([]byte, chunk)
	for left > 0 {
		sent, err := stream.Write(zeros[:min(left, chunk)])
		if err != nil {
			return err
		}
		left -= int64(sent)
	}
	if err := stream.Close(); err != nil {
		return err
	}
	<-connection.Context().Done()
	return nil
}

// received makes a file as long as the data that was received.
type received struct {
	file  *os.File
	bytes int64
}

func counter() io.Writer {
	name := os.Getenv("CCARENA_RECEIVED")
	if name == "" {
		return io.Discard
	}
	file, err := os.Create(name)
	if err != nil {
		log.Fatal(err)
	}
	return &received{file: file}
}

func (r *received) Write(data []byte) (int, error) {
	r.bytes += int64(len(data))
	return len(data), r.file.Truncate(r.bytes)
}
