use super::*;

/// Seconds since the start of a test, on our clock and on the wall.
struct Clock(Instant);

impl Clock {
    fn at(&self, seconds: u64) -> Instant {
        self.0 + Duration::from_secs(seconds)
    }
}

const DURATIONS: LeaderElection = LeaderElection {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

fn start() -> (Campaign, Clock) {
    let campaign = Campaign::new("us".to_owned(), DURATIONS);
    (campaign, Clock(Instant::now()))
}

fn wall(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

/// The Lease as `holder` wrote it at `renewed` by its own wall clock.
fn lease(holder: &str, version: u64, renewed: i64) -> Lease {
    let mut lease = Lease::default();
    lease.metadata.resource_version = Some(version.to_string());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        renew_time: Some(MicroTime(wall(renewed))),
        acquire_time: Some(MicroTime(wall(0))),
        lease_transitions: Some(3),
        ..LeaseSpec::default()
    });
    lease
}

#[test]
fn a_candidate_reads_first_and_creates_what_is_not_there() {
    let (mut campaign, clock) = start();
    assert_eq!(campaign.next(clock.at(0)), Step::Read);
    campaign.observe(None, clock.at(0));
    assert_eq!(campaign.next(clock.at(0)), Step::Create);
}

#[test]
fn a_free_lease_and_one_of_ours_are_taken_at_once() {
    for holder in ["", "us"] {
        let (mut campaign, clock) = start();
        campaign.observe(Some(lease(holder, 1, 0)), clock.at(0));
        assert_eq!(campaign.next(clock.at(0)), Step::Take, "{holder}");
    }
    let (mut campaign, clock) = start();
    campaign.observe(Some(Lease::default()), clock.at(0));
    assert_eq!(campaign.next(clock.at(0)), Step::Take, "no spec at all");
}

#[test]
fn expiry_counts_from_when_we_saw_the_record_change_whatever_its_clock_says() {
    for skew in [-100_000, 0, 100_000] {
        let (mut campaign, clock) = start();
        campaign.observe(Some(lease("them", 1, skew)), clock.at(0));
        assert_eq!(campaign.next(clock.at(14)), Step::Wait(clock.at(15)));
        campaign.observe(Some(lease("them", 2, skew + 10)), clock.at(10));
        assert_eq!(campaign.next(clock.at(24)), Step::Wait(clock.at(25)));
        assert_eq!(campaign.next(clock.at(25)), Step::Take);
    }
}

#[test]
fn what_does_not_change_the_record_does_not_prolong_it() {
    let (mut campaign, clock) = start();
    campaign.observe(Some(lease("them", 1, 0)), clock.at(0));
    campaign.observe(Some(lease("them", 2, 0)), clock.at(10)); // a label, say
    assert_eq!(campaign.next(clock.at(15)), Step::Take);
    let taken_under = campaign.lease().unwrap().metadata.resource_version.clone();
    assert_eq!(taken_under.as_deref(), Some("2"));
}

#[test]
fn the_holders_own_duration_counts() {
    let (mut campaign, clock) = start();
    let mut long = lease("them", 1, 0);
    long.spec.as_mut().unwrap().lease_duration_seconds = Some(60);
    campaign.observe(Some(long), clock.at(0));
    assert_eq!(campaign.next(clock.at(59)), Step::Wait(clock.at(60)));
}

#[test]
fn a_release_is_taken_at_once() {
    let (mut campaign, clock) = start();
    campaign.observe(Some(lease("them", 1, 0)), clock.at(0));
    campaign.observe(Some(lease("", 2, 1)), clock.at(1));
    assert_eq!(campaign.next(clock.at(1)), Step::Take);
}

#[test]
fn a_leader_renews_each_retry_period() {
    let (mut campaign, clock) = start();
    campaign.won(lease("us", 1, 0), clock.at(0));
    assert_eq!(campaign.next(clock.at(1)), Step::Wait(clock.at(2)));
    assert_eq!(campaign.next(clock.at(2)), Step::Renew);
    campaign.won(lease("us", 2, 2), clock.at(2));
    assert_eq!(campaign.next(clock.at(3)), Step::Wait(clock.at(4)));
}

#[test]
fn a_leader_without_a_successful_renewal_steps_down_at_the_deadline() {
    let (mut campaign, clock) = start();
    campaign.won(lease("us", 1, 0), clock.at(0));
    for failure in [2, 4, 6, 8] {
        assert_eq!(campaign.next(clock.at(failure)), Step::Renew);
        campaign.failed(clock.at(failure));
        let next = clock.at(failure + 2);
        assert_eq!(campaign.next(clock.at(failure)), Step::Wait(next));
    }
    assert_eq!(campaign.next(clock.at(10)), Step::Resign);
    campaign.step_down();
    assert!(!campaign.leading());
    assert_eq!(campaign.next(clock.at(10)), Step::Take, "it is still ours");
}

#[test]
fn a_wait_after_a_failure_ends_at_the_deadline() {
    let (mut campaign, clock) = start();
    campaign.won(lease("us", 1, 0), clock.at(0));
    campaign.failed(clock.at(9));
    assert_eq!(campaign.next(clock.at(9)), Step::Wait(clock.at(10)));
    assert_eq!(campaign.next(clock.at(10)), Step::Resign);
}

#[test]
fn a_leader_that_sees_another_holder_steps_down() {
    let (mut campaign, clock) = start();
    campaign.won(lease("us", 1, 0), clock.at(0));
    campaign.observe(Some(lease("them", 2, 1)), clock.at(1));
    assert_eq!(campaign.next(clock.at(1)), Step::Resign);
    campaign.step_down();
    assert_eq!(campaign.next(clock.at(1)), Step::Wait(clock.at(16)));
}

#[test]
fn a_leader_whose_lease_was_deleted_creates_it_anew() {
    let (mut campaign, clock) = start();
    campaign.won(lease("us", 1, 0), clock.at(0));
    campaign.observe(None, clock.at(1));
    assert_eq!(campaign.next(clock.at(1)), Step::Create);
}

#[test]
fn an_event_older_than_the_answer_to_our_write_changes_nothing() {
    let (mut campaign, clock) = start();
    campaign.won(lease("us", 9, 5), clock.at(5));
    campaign.observe(Some(lease("them", 8, 4)), clock.at(6));
    assert_eq!(campaign.holder(), Some("us"));
}

#[test]
fn a_failed_candidate_waits_before_it_tries_again() {
    let (mut campaign, clock) = start();
    campaign.failed(clock.at(0));
    assert_eq!(campaign.next(clock.at(1)), Step::Wait(clock.at(2)));
    assert_eq!(campaign.next(clock.at(2)), Step::Read);
}

#[test]
fn a_claim_counts_transitions_and_keeps_the_time_of_acquisition() {
    let (mut campaign, clock) = start();
    let first = campaign.claim(wall(7));
    assert_eq!(first.lease_transitions, Some(0));
    assert_eq!(first.acquire_time, Some(MicroTime(wall(7))));
    campaign.observe(Some(lease("them", 1, 0)), clock.at(0));
    let taken = campaign.claim(wall(8));
    assert_eq!(taken.holder_identity.as_deref(), Some("us"));
    assert_eq!(taken.lease_transitions, Some(4));
    assert_eq!(taken.acquire_time, Some(MicroTime(wall(8))));
    campaign.won(lease("us", 2, 8), clock.at(8));
    let renewed = campaign.claim(wall(9));
    assert_eq!(renewed.lease_transitions, Some(3));
    assert_eq!(renewed.acquire_time, Some(MicroTime(wall(0))));
    assert_eq!(renewed.renew_time, Some(MicroTime(wall(9))));
}

#[test]
fn only_what_is_ours_is_released() {
    let (mut campaign, clock) = start();
    assert_eq!(campaign.release(wall(1)), None);
    campaign.observe(Some(lease("them", 1, 0)), clock.at(0));
    assert_eq!(campaign.release(wall(1)), None);
    campaign.observe(Some(lease("us", 2, 0)), clock.at(0));
    let released = campaign.release(wall(1)).unwrap();
    assert_eq!(released.holder_identity.as_deref(), Some(""));
}

#[test]
fn a_record_says_whole_seconds_and_rather_too_many() {
    for (millis, seconds) in [(15_000, 15), (1_001, 2), (1_000, 1)] {
        let durations = LeaderElection {
            lease_duration: Duration::from_millis(millis),
            ..DURATIONS
        };
        let claim = Campaign::new("us".to_owned(), durations).claim(wall(0));
        assert_eq!(claim.lease_duration_seconds, Some(seconds));
    }
}
