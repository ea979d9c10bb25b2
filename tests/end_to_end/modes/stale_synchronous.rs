//! `strategy.update = "ssp"`: nobody is farther ahead of the slowest than the bound.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::Trial;
use super::trial::{ENDLESS, Tasks, slow_down, wait_until_it_trains};

/// What a daemon measures, as Prometheus text.
fn metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the admin port listens");
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .expect("it takes a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

/// Values of the histogram of leads: at most `bound`, and in all.
fn leads(text: &str, bound: u64) -> (u64, u64) {
    let count = |begin: &str| {
        let line = text.lines().find(|line| line.starts_with(begin));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.unwrap_or_else(|| panic!("{begin} in {text}"))
    };
    (
        count(&format!("trainyard_ps_lead_steps_bucket{{le=\"{bound}\"}}")),
        count("trainyard_ps_lead_steps_count"),
    )
}

trial!(nobody_is_farther_ahead_than_the_bound_of_a_worker_that_is_slow);
fn nobody_is_farther_ahead_than_the_bound_of_a_worker_that_is_slow() {
    for bound in [0, 2] {
        let staleness = format!("strategy.staleness_steps_max={bound}");
        let settings = ["strategy.update=ssp", &staleness, ENDLESS];
        let trial = Trial::new(2, 2, 8000, &settings);
        let mut servers = vec![trial.start("ps", 0), trial.start("ps", 1)];
        let admin = &servers[0].admin_address(crate::end_to_end::LIMIT);
        let mut chief = trial.start("chief", 0);
        let mut workers = vec![trial.start("worker", 0), trial.start("worker", 1)];
        workers.iter_mut().for_each(wait_until_it_trains);
        let slow = slow_down(
            workers.remove(0),
            Duration::from_millis(120),
            Duration::from_millis(30),
        );
        for _ in 0..5 {
            chief.wait_for_next("training step=", crate::end_to_end::LIMIT);
            let (within, all) = leads(&metrics(admin), bound);
            assert!(
                all > 10 && within == all,
                "{within} of {all} within {bound}"
            );
        }
        workers.push(slow.let_go());
        let (passes, _) = trial.end(Tasks {
            servers,
            chief,
            workers,
        });
        assert_eq!(trial.global_step(), passes * 500);
        trial.assert_applied(passes * 500);
    }
}

trial!(the_last_data_is_read_while_others_have_none_left_and_are_not_ahead);
fn the_last_data_is_read_while_others_have_none_left_and_are_not_ahead() {
    // Two data shards for five tasks: three of them find nothing to do, and nobody may wait for them.
    let settings = [
        "strategy.update=ssp",
        "strategy.staleness_steps_max=1",
        "input.train.epochs=1",
    ];
    let trial = Trial::new(2, 4, 500, &settings);
    trial.start_all().end();
    assert_eq!(trial.global_step(), 32);
    trial.assert_applied(32);
}
