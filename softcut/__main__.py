"""``python -m softcut`` is the command line."""

if __name__ == "__main__":
    try:
        from softcut.cli import main
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    main()
