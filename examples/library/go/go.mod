module ccarena.example/host

go 1.21
