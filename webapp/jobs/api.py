"""Short jobs in the REST API."""

from troupe_client.documents import jobs as documents
from webapp.accounts.permissions import Person
from webapp.api.routes import Routes
from webapp.jobs import services
from webapp.jobs.services import job_document, job_get
from webapp.jobs.starting import job_start

MOST = 100
routes = Routes()


@routes.get("jobs/", name="jobs", operation_id="v1_jobs_list")
def jobs(user: Person) -> list[documents.Job]:
    """Return the latest hundred short jobs, newest first."""
    return [job_document(job) for job in services.jobs_visible(user)[:MOST]]


@routes.post("jobs/", status=201)
def job_create(user: Person, body: documents.JobBody) -> documents.Job:
    """Start a check, dry run, evaluation, conversation, match, or preparation of base models."""
    return job_document(job_get(user, job_start(user, body).pk))


@routes.get("jobs/<str:pk>/", name="job")
def job(user: Person, pk: str) -> documents.JobDetail:
    """Return state, progress, result, episodes, and the current state of a conversation."""
    return services.job_detail(services.job_follow(job_get(user, pk)))


@routes.post("jobs/<str:pk>/cancel/", name="job-cancel")
def job_cancel(user: Person, pk: str) -> documents.Job:
    """Cancel the job; its finished episodes are kept."""
    return job_document(services.job_cancel(user, job_get(user, pk)))


@routes.post("jobs/<str:pk>/say/", name="job-say")
def job_say(user: Person, pk: str, body: documents.SayBody) -> documents.Job:
    """Send a message in a conversation; only allowed on the user's turn."""
    job = job_get(user, pk)
    services.job_say(user, job, body.turn, body.text)
    return job_document(job)
